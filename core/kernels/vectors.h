#ifndef CORE_VECTORS_H
#define CORE_VECTORS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Vectors of the instruction set that is compiled for, where kernels_table.c has a loop that compilers do not
 * make good ones of: AVX-512 or AVX2.
 */
#if defined(__AVX2__)
#include <immintrin.h>

#if defined(__AVX512F__)
typedef __m512 vector;
#define vector_all   _mm512_set1_ps
#define vector_load  _mm512_loadu_ps
#define vector_max   _mm512_max_ps /* a > b ? a : b, also where one is NaN or both are zeros */
#define vector_add   _mm512_add_ps
#define vector_sub   _mm512_sub_ps
#define vector_mul   _mm512_mul_ps
#define vector_store _mm512_storeu_ps
#else
typedef __m256 vector;
#define vector_all   _mm256_set1_ps
#define vector_load  _mm256_loadu_ps
#define vector_max   _mm256_max_ps
#define vector_add   _mm256_add_ps
#define vector_sub   _mm256_sub_ps
#define vector_mul   _mm256_mul_ps
#define vector_store _mm256_storeu_ps
#endif

#define VECTOR_TOKENS (sizeof(vector) / sizeof(float))

/* x, and -INFINITY where the token's bit is 0. */
static inline vector vector_masked(vector x, unsigned bits)
{
#if defined(__AVX512F__)
    return _mm512_mask_mov_ps(vector_all(-INFINITY), (__mmask16)bits, x);
#else
    const __m256i of_token = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    __m256i set = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)bits), of_token), of_token);
    return _mm256_blendv_ps(vector_all(-INFINITY), x, _mm256_castsi256_ps(set));
#endif
}

/* A bit for each token of z[VECTOR_TOKENS]: low <= z < high. */
static inline unsigned vector_between(const float *z, float low, float high)
{
    vector x = vector_load(z);
#if defined(__AVX512F__)
    __mmask16 reach = _mm512_cmp_ps_mask(x, vector_all(low), _CMP_GE_OQ);
    return _mm512_mask_cmp_ps_mask(reach, x, vector_all(high), _CMP_LT_OQ);
#else
    vector reach = _mm256_cmp_ps(x, vector_all(low), _CMP_GE_OQ);
    return (unsigned)_mm256_movemask_ps(_mm256_and_ps(reach, _mm256_cmp_ps(x, vector_all(high), _CMP_LT_OQ)));
#endif
}

/* first + the number of each bit that is set, ascending; all of ids[VECTOR_TOKENS] are written. */
static inline void vector_store_ids(int *ids, unsigned bits, size_t first)
{
#if defined(__AVX512F__)
    const __m512i number = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i id = _mm512_add_epi32(number, _mm512_set1_epi32((int)first));
    _mm512_storeu_si512(ids, _mm512_maskz_compress_epi32((__mmask16)bits, id));
#else
    /* a byte of ones for each bit picks its number, 0 .. 7 */
    uint64_t numbers = _pext_u64(0x0706050403020100u, _pdep_u64(bits, 0x0101010101010101u) * 0xff);
    __m256i id = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)numbers));
    _mm256_storeu_si256((void *)ids, _mm256_add_epi32(id, _mm256_set1_epi32((int)first)));
#endif
}
#endif

#endif
