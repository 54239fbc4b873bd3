#ifndef CORE_SELECT_H
#define CORE_SELECT_H

#include "core/row/rank.h"
#include "core/row/support.h"

/*
 * The rules that cut a row down.  scratch must hold select_scratch_bytes(s->n) beyond what it has lent; what
 * the new support points at stays lent.
 */
size_t select_scratch_bytes(size_t n);

/*
 * Keep the logits >= the k-th largest, k >= 1; all ties at the cutoff stay.  k >= n keeps all.
 * Source: Fan, Lewis, Dauphin, "Hierarchical neural story generation", ACL 2018, arXiv:1805.04833.
 */
void select_top_k(struct support *s, size_t k, const struct kernels *kernels, struct arena *scratch);

/*
 * Keep the likeliest tokens while their running probability stays <= top_p, 0 < top_p < 1: the token that
 * crosses is dropped, the likeliest is always kept, and of equal logits the lower id comes first.
 * Probabilities are those of the support that comes in, from weights of the given scale.
 *
 * Only tokens above a falling threshold are sorted, until their mass passes top_p.  On a flat row, where
 * those would be too many, the threshold is bisected by mass instead. Source: Holtzman et al., "The curious
 * case of neural text degeneration", ICLR 2020, arXiv:1904.09751; the crossing token is dropped here, unlike
 * there.
 */
void select_top_p(struct support *s, double top_p, struct weight_scale scale, const struct kernels *kernels,
                  struct arena *scratch);

#endif
