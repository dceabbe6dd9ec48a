/* The jump chain of corewise's kernel, written in C.

   A state is a row of `thresholds` and of `moves`, WIDTH = 2K entries each: one for every move, arrivals of each
   class and then departures of each class. A threshold is the probability of a move up to this one, and −1 where
   the box ends. Both walks stop after so many departures, or where the box ends, and leave the state in *state;
   they return the departures that are then left. WIDTH is a constant so that the compiler can unroll.

   `walk` draws from a NumPy bit generator, as corewise does. `walk_inline` carries its own copy of NumPy's
   PCG64 (O'Neill 2014, XSL-RR), so that no function is called in the loop; its numbers are the same. */

#include <stdint.h>

typedef unsigned __int128 uint128;

#define WALK(DRAW)                                               \
    uint64_t row = WIDTH * *state;                               \
    while (departures > 0 && thresholds[row] >= 0) {             \
        const double uniform = (DRAW);                           \
        uint64_t k = 0;                                          \
        for (int j = 0; j < WIDTH - 1; j++)                      \
            k += uniform >= thresholds[row + j];                 \
        moves[row + k] += 1;                                     \
        row += WIDTH * (uint64_t)steps[k];                       \
        departures -= k >= WIDTH / 2;                            \
    }                                                            \
    *state = row / WIDTH;                                        \
    return departures;

int64_t walk(uint64_t *state, int64_t departures, const double *restrict thresholds,
             const int64_t *restrict steps, int64_t *restrict moves, double (*next)(void *), void *generator)
{
    WALK(next(generator))
}

static inline double next_double(uint128 *x, uint128 increment)
{
    const uint128 multiplier = ((uint128)0x2360ED051FC65DA4ULL << 64) | 0x4385DF649FCCF645ULL;
    *x = *x * multiplier + increment;
    const uint64_t mixed = (uint64_t)(*x >> 64) ^ (uint64_t)*x;
    const unsigned turn = (unsigned)(*x >> 122);
    const uint64_t bits = (mixed >> turn) | (mixed << (-turn & 63));
    return (bits >> 11) * (1.0 / 9007199254740992.0);
}

/* `generator` holds the state and the increment of PCG64, each as its high and its low half. */
int64_t walk_inline(uint64_t *state, int64_t departures, const double *restrict thresholds,
                    const int64_t *restrict steps, int64_t *restrict moves, const uint64_t *generator)
{
    uint128 x = ((uint128)generator[0] << 64) | generator[1];
    const uint128 increment = ((uint128)generator[2] << 64) | generator[3];
    WALK(next_double(&x, increment))
}
