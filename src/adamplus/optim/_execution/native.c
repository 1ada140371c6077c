/* The two passes of a step over dense tensors in a CPU's memory: 8 and 20 bytes a float32 parameter, no temporaries.

   Tensors are cut into chunks, which threads take from a common counter as they get to them. A chunk has its own sum,
   so that the same inputs give the same bits however many threads there are. Roundings are those of torch's lerp and
   addcmul, which use fma wherever a CPU has it, and no others (-ffp-contract=off): plain execution has the same bits. */

/* This file includes itself twice: for float and for double. Line 7, η, is computed in _algorithm.py. */
#ifndef REAL

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Checksum of this file: a library that was compiled from another version is not used. */
const uint64_t made_from = SOURCE;

/* A chunk is what a thread takes at a time; a block is what stays in the innermost cache from one loop to the next
   (with 256 elements the passes took 3 to 10 % longer). */
enum { CHUNK = 1 << 17, BLOCK = 1 << 6, LANES = 16 };

struct tensor {
    void *w_hat;
    const void *g; /* NULL to take the norm of z alone */
    void *z;
    int64_t size, first_chunk; /* after the last tensor comes a row of which only first_chunk is used */
};

/* Arguments of one pass. `weight` has a number for each tensor: β, or 1 at its first step. `old_offset` (c_{t−1}) and
   `rate` (η_t/β) have a pointer to one for each tensor. `keep` is 1 − lr·λ if weight decay is decoupled, else 1. */
struct work {
    const struct tensor *tensors;
    int64_t count, chunks, next, done, maximize;
    double decay;
    const double *keep, *weight;
    const void *const *old_offset, *const *rate;
    double *sums, *norms; /* one for each chunk, one for each tensor */
};

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int64_t take(struct work *work) { return __atomic_fetch_add(&work->next, 1, __ATOMIC_RELAXED); }

/* The tensor that a chunk belongs to, searched from that of another chunk. */
static inline const struct tensor *owner(const struct tensor *t, int64_t chunk)
{
    while (chunk >= t[1].first_chunk)
        t++;
    while (chunk < t->first_chunk)
        t--;
    return t;
}

/* The norms, always summed in one order. The thread that finishes the last chunk calls this. */
static void finish(struct work *work)
{
    for (int64_t row = 0; row < work->count; row++) {
        double sum = 0;
        for (int64_t c = work->tensors[row].first_chunk; c < work->tensors[row + 1].first_chunk; c++)
            sum += work->sums[c];
        work->norms[row] = sqrt(sum);
    }
}

#define REAL float
#define FMA __builtin_fmaf
#define NAMED(pass) pass##_float32
#include "native.c"
#undef REAL
#undef FMA
#undef NAMED

#define REAL double
#define FMA __builtin_fma
#define NAMED(pass) pass##_float64
#include "native.c"

#else /* included once for each dtype */

/* Lines 5 and 10: z_t = (1 − weight) z + weight g with g ← ±g + λ ŵ, from the nearer end as in torch.lerp: exactly g
   if the weight is 1. */
static inline void NAMED(average)(REAL *restrict z_t, const REAL *w_hat, const REAL *g, const REAL *z, int64_t size,
                                  int maximize, REAL decay, REAL weight)
{
    for (int64_t i = 0; i < size; i++) {
        REAL g_t = maximize ? -g[i] : g[i];
        if (decay != 0)
            g_t = FMA(w_hat[i], decay, g_t);
        z_t[i] = weight < (REAL)0.5 ? FMA(weight, g_t - z[i], z[i]) : FMA(weight - 1, g_t - z[i], g_t);
    }
}

/* First pass: ‖z_t‖ of each tensor. z is not written yet, so that the second pass still has z_{t−1}. */
void NAMED(norms)(struct work *work)
{
    const struct tensor *t = work->tensors;
    for (int64_t chunk; (chunk = take(work)) < work->chunks;) {
        t = owner(t, chunk);
        const int64_t start = (chunk - t->first_chunk) * CHUNK, end = least(start + CHUNK, t->size);
        REAL z_t[BLOCK];
        double lanes[LANES] = {0}; /* float64, because squares of float32 values may leave float32's range */
        for (int64_t i = start; i < end; i += BLOCK) {
            const REAL *w_hat = (const REAL *)t->w_hat + i, *g = (const REAL *)t->g + i, *z = (const REAL *)t->z + i;
            const int64_t size = least(BLOCK, end - i);
            if (t->g)
                NAMED(average)(z_t, w_hat, g, z, size, work->maximize, work->decay, work->weight[t - work->tensors]);
            else
                memcpy(z_t, z, size * sizeof(REAL));
            memset(z_t + size, 0, (BLOCK - size) * sizeof(REAL));
            for (int64_t k = 0; k < size; k += LANES)
                for (int lane = 0; lane < LANES; lane++)
                    lanes[lane] += (double)z_t[k + lane] * (double)z_t[k + lane];
        }
        work->sums[chunk] = 0;
        for (int lane = 0; lane < LANES; lane++)
            work->sums[chunk] += lanes[lane];
        if (__atomic_add_fetch(&work->done, 1, __ATOMIC_ACQ_REL) == work->chunks)
            finish(work);
    }
}

/* Second pass, lines 8 to 10: w_t = (ŵ_t + c z_{t−1}) keep, z_t, and ŵ_{t+1} = w_t − rate z_t. From the last chunk backwards, because
   the first pass may have left that in the cache: saves 4 % of both passes with 300 MiB of cache, nothing with 32. */
void NAMED(update)(struct work *work)
{
    const struct tensor *t = work->tensors;
    for (int64_t chunk; (chunk = work->chunks - 1 - take(work)) >= 0;) {
        t = owner(t, chunk);
        const int64_t start = (chunk - t->first_chunk) * CHUNK, end = least(start + CHUNK, t->size);
        const int64_t row = t - work->tensors;
        const REAL old_offset = *(const REAL *)work->old_offset[row], rate = *(const REAL *)work->rate[row], keep = *work->keep;
        REAL z_t[BLOCK];
        for (int64_t i = start; i < end; i += BLOCK) {
            REAL *restrict w_hat = (REAL *)t->w_hat + i, *restrict z = (REAL *)t->z + i;
            const REAL *g = (const REAL *)t->g + i;
            const int64_t size = least(BLOCK, end - i);
            NAMED(average)(z_t, w_hat, g, z, size, work->maximize, work->decay, work->weight[row]);
            for (int64_t k = 0; k < size; k++) {
                w_hat[k] = FMA(-z_t[k], rate, FMA(z[k], old_offset, w_hat[k]) * keep);
                z[k] = z_t[k];
            }
        }
    }
}

#endif
