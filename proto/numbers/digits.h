#ifndef PROTO_DIGITS_H
#define PROTO_DIGITS_H

#include <stdint.h>
#include <string.h>

/*
 * Decimal digits, eight at a time in one 64-bit word.
 *
 * A block holds eight characters, the first in the lowest byte, each XORed with '0': a digit's byte
 * is then its value 0 .. 9.  Little-endian only; a big-endian machine needs a byte swap in
 * digits_load and nothing else.
 */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "digits_load needs a byte swap here");

#define DIGITS_PER_BLOCK 8

/* The same byte in each of the eight places. */
#define DIGITS_REPEAT(byte) ((uint64_t)(byte)*0x0101010101010101u)

static const uint64_t digits_power[DIGITS_PER_BLOCK + 1] = {
    /* 10^n */
    1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000,
};

/* The block at text, of which all eight bytes are read, at any alignment. */
static inline uint64_t digits_load(const char *text)
{
    uint64_t block;
    memcpy(&block, text, sizeof block);
    return block ^ DIGITS_REPEAT('0');
}

/*
 * Mark the bytes that are no digits: a byte of the result is 0 for a digit, up to and including the
 * first other one.  A byte over 9 has a bit of its high nibble set, or gets one by adding 6; the
 * addition carries into the next byte only from 0xfa and above, which is marked already.
 */
static inline uint64_t digits_stops(uint64_t block)
{
    return (block | (block + DIGITS_REPEAT(6))) & DIGITS_REPEAT(0xf0);
}

/* Digits before the first mark, of which there is one: 0 .. 7. */
static inline unsigned digits_before_mark(uint64_t stops)
{
    return (unsigned)__builtin_ctzll(stops) / 8;
}

/* Digits before the first mark, if any: 0 .. 8. */
static inline unsigned digits_before(uint64_t stops)
{
    return stops == 0 ? DIGITS_PER_BLOCK : digits_before_mark(stops);
}

/*
 * The number that eight digits write.  Neighbours are joined three times: to pairs p0 .. p3 in every
 * second byte, then both steps to 10^6 p0 + 10^4 p1 + 10^2 p2 + p3 at once, in the upper half of two
 * products.
 */
static inline uint64_t digits_value(uint64_t block)
{
    uint64_t pairs = block * 10 + (block >> 8);
    uint64_t even = pairs & 0x000000ff000000ffu;        /* p0, p2 */
    uint64_t odd = (pairs >> 16) & 0x000000ff000000ffu; /* p1, p3 */
    return (even * ((UINT64_C(1000000) << 32) + 100) + odd * ((UINT64_C(10000) << 32) + 1)) >> 32;
}

/* The number that the first n digits write, n < 8; 0 if n is 0.  Zeros move in before them. */
static inline uint64_t digits_value_of(uint64_t block, unsigned n)
{
    return digits_value(block << (8 * (DIGITS_PER_BLOCK - 1 - n)) << 8);
}

#endif
