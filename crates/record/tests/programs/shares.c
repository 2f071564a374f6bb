/* Functions that use CPU time in known shares: each returns the time that it used. */
#include <stdint.h>
#include <time.h>

static uint64_t used[3];
volatile uint64_t sink;

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

#define BURN(name, index)                                                     \
    __attribute__((noinline)) void name(int rounds) {                         \
        uint64_t before = now(), x = (uint64_t)rounds;                        \
        for (int i = 0; i < rounds * 1000; i++) x = x * 6364136223846793005u + 1; \
        sink = x;                                                             \
        used[index] += now() - before;                                        \
    }

BURN(burn_a, 0)
BURN(burn_b, 1)
BURN(burn_c, 2)

/* Not the last thing that it does: a tail call would leave no frame. */
__attribute__((noinline)) void outer(int rounds) {
    burn_a(5 * rounds);
    burn_b(3 * rounds);
    burn_c(2 * rounds);
    sink++;
}

uint64_t used_by(int index) { return used[index]; }
