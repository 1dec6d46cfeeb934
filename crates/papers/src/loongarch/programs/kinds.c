/* Kernels of x86-64 whose instructions depend on flags that a comparison and its branch alone do
 * not give: `kinds KERNEL ROUNDS` prints one checksum. Compilers make the same sequences of wide
 * integers, of overflow checks, of comparisons with three outcomes and of long double. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t u64;

static u64 seed = 88172645463325252u;

static u64 next(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

/* Sums and differences of 256 bits, a multiplication by one word: carries from word to word. */
static u64 flags(int rounds) {
    u64 a[4] = {next(), next(), next(), next()}, b[4] = {next(), next(), next(), next()};
    for (int i = 0; i < rounds * 20000; i++) {
        __asm__ volatile("mov 0(%1), %%rax\n\tadd %%rax, 0(%0)\n\t"
                         "mov 8(%1), %%rax\n\tadc %%rax, 8(%0)\n\t"
                         "mov 16(%1), %%rax\n\tadc %%rax, 16(%0)\n\t"
                         "mov 24(%1), %%rax\n\tadc %%rax, 24(%0)\n\t"
                         "sbb %%rax, %%rax\n\t"
                         "mov 0(%0), %%rcx\n\tsub %%rcx, 0(%1)\n\t"
                         "mov 8(%0), %%rcx\n\tsbb %%rcx, 8(%1)\n\t"
                         "mov 16(%0), %%rcx\n\tsbb %%rcx, 16(%1)\n\t"
                         "mov 24(%0), %%rcx\n\tsbb %%rcx, 24(%1)\n\t"
                         "adc $0, %%rax\n\txor %%rax, 0(%1)"
                         :
                         : "r"(a), "r"(b)
                         : "rax", "rcx", "cc", "memory");
    }
    return a[0] ^ a[1] ^ a[2] ^ a[3] ^ b[0] ^ b[1] ^ b[2] ^ b[3];
}

/* Two branches by one comparison, overflow and parity: conditions that are read in other blocks. */
static u64 jumps(int rounds) {
    u64 sum = 0;
    for (int i = 0; i < rounds * 20000; i++) {
        u64 a = next(), b = next();
        __asm__ volatile("cmp %2, %1\n\tjb 1f\n\tje 2f\n\tadd $3, %0\n\tjmp 3f\n"
                         "1:\n\tadd $5, %0\n\tjmp 3f\n2:\n\tadd $7, %0\n3:\n\t"
                         "add %2, %1\n\tjno 4f\n\tadd $11, %0\n4:\n\t"
                         "test %1, %1\n\tjp 5f\n\tjs 6f\n\tadd $13, %0\n\tjmp 7f\n"
                         "5:\n\tjs 7f\n\tadd $17, %0\n\tjmp 7f\n6:\n\tadd $19, %0\n7:\n\t"
                         "cmp %1, %2\n\tjg 8f\n\tjl 9f\n\tadd $23, %0\n8:\n\tadd $29, %0\n9:"
                         : "+r"(sum), "+r"(a)
                         : "r"(b)
                         : "cc");
    }
    return sum;
}

/* Sums and comparisons of 80 bits. */
static u64 x87(int rounds) {
    volatile long double a = 1.0L, step = 0.37L, bound = 100.0L;
    u64 above = 0;
    for (int i = 0; i < rounds * 2000; i++) {
        a = a * 1.01L + step;
        if (a > bound) {
            a = a - bound;
            above++;
        }
    }
    return above;
}

static const struct {
    const char *name;
    u64 (*run)(int);
} kernels[] = {{"flags", flags}, {"jumps", jumps}, {"x87", x87}};

int main(int argc, char **argv) {
    if (argc == 3)
        for (unsigned k = 0; k < sizeof kernels / sizeof *kernels; k++)
            if (!strcmp(argv[1], kernels[k].name)) {
                printf("%s %016llx\n", argv[1], (unsigned long long)kernels[k].run(atoi(argv[2])));
                return 0;
            }
    fprintf(stderr, "usage: kinds KERNEL ROUNDS\n");
    return 2;
}
