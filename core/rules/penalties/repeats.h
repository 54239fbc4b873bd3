#ifndef CORE_REPEATS_H
#define CORE_REPEATS_H

#include "core/base/arena.h"
#include "core/rules/values.h"

/*
 * lengths[text.n]: of the ids that stand directly before each id, how many equal the last ids of the text.
 * The first id has nothing before it.  Linear in text.n.
 *
 * Source: the Z-algorithm (Gusfield, Algorithms on strings, trees and sequences, 1997, 1.4) on the text
 * backwards.
 */
void repeats_measure(struct id_list text, uint32_t *lengths);

#endif
