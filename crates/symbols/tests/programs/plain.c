/* Functions that are inlined into each other, static and not. */
#include <stddef.h>

static inline double square(double x) {
    return x * x + 1.0;
}

static inline double twice_squared(double x) {
    double y = square(x);
    return square(y) / 3.0;
}

__attribute__((noinline)) static double hidden_sum(const double *values, size_t count) {
    double sum = 0.0;
    for (size_t at = 0; at < count; at++) {
        sum += twice_squared(values[at]);
    }
    return sum;
}

double shown_sum(const double *values, size_t count) {
    if (count == 0) {
        return -1.0;
    }
    return hidden_sum(values, count) + square(values[0]);
}

__attribute__((noinline)) void shown_fill(double *values, size_t count, double with) {
    for (size_t at = 0; at < count; at++) {
        values[at] = square(with) + (double)at;
    }
}
