/* Alternate signal stacks with a guard page and a painted bottom, and handlers that count. */

#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PAINT = 0xa5, GUARD = 65536 };

static __thread unsigned char *stack;
static __thread size_t stack_size;

/* Blocks what glibc never does, too. */
static void mask_all(uint64_t except, uint64_t *before)
{
    uint64_t mask = ~except;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, before, sizeof mask);
}

size_t least_size(void) { return getauxval(51 /* AT_MINSIGSTKSZ */); }

/* The calling thread gets an alternate stack of this size, right above pages that fault. */
int set_stack(size_t size)
{
    unsigned char *guard = mmap(0, GUARD + size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (guard == MAP_FAILED || mprotect(guard, GUARD, PROT_NONE) != 0)
        return -1;
    stack = guard + GUARD;
    stack_size = size;
    stack_t new = { .ss_sp = stack, .ss_size = size };
    return sigaltstack(&new, 0);
}

void paint(void)
{
    uint64_t before;
    mask_all(0, &before);
    memset(stack, PAINT, stack_size);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, 0, sizeof before);
}

/* Bytes from the top of the stack down to the lowest one that was written. */
size_t touched(void)
{
    size_t at = 0;
    while (at < stack_size && stack[at] == PAINT)
        at++;
    return stack_size - at;
}

static void nothing(int number, siginfo_t *info, void *context) { (void)number, (void)info, (void)context; }

/* What the kernel's signal frame and a handler without any code take. */
size_t kernel_frame(void)
{
    struct sigaction action = { .sa_sigaction = nothing, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    uint64_t before;
    mask_all(1ull << (SIGUSR2 - 1), &before);
    memset(stack, PAINT, stack_size);
    sigaction(SIGUSR2, &action, 0);
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR2);
    size_t used = touched();
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, 0, sizeof before);
    return used;
}

static double thread_time(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* Uses this many seconds, some calls deep. */
__attribute__((noinline)) double spin(int depth, double seconds)
{
    if (depth > 0)
        return spin(depth - 1, seconds) + depth;
    double end = thread_time() + seconds, value = 1;
    while (thread_time() < end)
        for (int i = 0; i < 1000; i++)
            value = value * 1.0000001 + 1e-9;
    return value;
}

static volatile int counts[65];

static void counting(int number) { __atomic_fetch_add(&counts[number], 1, __ATOMIC_RELAXED); }

int count(int number) { return counts[number]; }

/* A handler that counts, by the C library. */
int take(int number)
{
    struct sigaction action = { .sa_handler = counting, .sa_flags = SA_RESTART };
    sigfillset(&action.sa_mask);
    return sigaction(number, &action, 0);
}

#ifdef __x86_64__
__asm__(".text\nreturn_from_signal:\n mov $15, %rax\n syscall\n");
extern void return_from_signal(void);
#endif

/* The same by a plain system call. */
int take_by_system_call(int number)
{
    struct { void *handler; unsigned long flags; void *restorer; uint64_t mask; } action = { counting, SA_RESTART, 0, 0 };
#ifdef __x86_64__
    action.flags |= 0x04000000;
    action.restorer = (void *)return_from_signal;
#endif
    return syscall(SYS_rt_sigaction, number, &action, 0, 8);
}
