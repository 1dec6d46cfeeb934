/* Integer kernels: `integer KERNEL ROUNDS` prints one checksum. Compiled for every architecture
 * from this one source; nothing in it depends on the word size or byte order. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t u64;
typedef uint32_t u32;

static u64 seed;

static u64 next(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static u64 xorshift(int rounds) {
    u64 sum = 0;
    for (int i = 0; i < rounds * 200000; i++)
        sum += next();
    return sum;
}

static u64 crc(int rounds) {
    static u32 table[256];
    static unsigned char data[4096];
    for (u32 n = 0; n < 256; n++) {
        u32 c = n;
        for (int bit = 0; bit < 8; bit++)
            c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
        table[n] = c;
    }
    for (int i = 0; i < 4096; i++)
        data[i] = (unsigned char)next();
    u32 c = ~0u;
    for (int r = 0; r < rounds * 60; r++)
        for (int i = 0; i < 4096; i++)
            c = table[(c ^ data[i]) & 255] ^ c >> 8;
    return ~c;
}

struct node {
    u64 key;
    int left, right;
};

static u64 tree(int rounds) {
    static struct node nodes[8192];
    u64 depth = 0;
    for (int r = 0; r < rounds * 4; r++) {
        int used = 1;
        nodes[0] = (struct node){next(), 0, 0};
        while (used < 8192) {
            u64 key = next();
            int at = 0;
            for (;;) {
                int *link = key < nodes[at].key ? &nodes[at].left : &nodes[at].right;
                depth++;
                if (*link == 0) {
                    *link = used;
                    break;
                }
                at = *link;
            }
            nodes[used++] = (struct node){key, 0, 0};
        }
    }
    return depth;
}

static u64 step_add(u64 x) { return x + 0x9e3779b97f4a7c15u; }
static u64 step_xor(u64 x) { return x ^ x >> 29; }
static u64 step_mul(u64 x) { return x * 0xbf58476d1ce4e5b9u; }
static u64 step_rot(u64 x) { return x << 23 | x >> 41; }

static u64 indirect(int rounds) {
    static u64 (*volatile steps[4])(u64) = {step_add, step_xor, step_mul, step_rot};
    u64 x = 1;
    for (int i = 0; i < rounds * 150000; i++)
        x = steps[(x >> 11 ^ (u64)i) & 3](x);
    return x;
}

static u64 sieve(int rounds) {
    static unsigned char composite[100000];
    u64 found = 0;
    for (int r = 0; r < rounds * 3; r++) {
        memset(composite, 0, sizeof composite);
        for (int i = 2; i < 100000; i++) {
            if (composite[i])
                continue;
            found++;
            for (long j = (long)i * i; j < 100000; j += i)
                composite[j] = 1;
        }
    }
    return found;
}

static u64 lcs(int rounds) {
    enum { LEN = 500 };
    static unsigned char a[LEN], b[LEN];
    static int row[LEN + 1];
    u64 sum = 0;
    for (int r = 0; r < rounds; r++) {
        for (int i = 0; i < LEN; i++) {
            a[i] = (unsigned char)(next() & 3);
            b[i] = (unsigned char)(next() & 3);
        }
        memset(row, 0, sizeof row);
        for (int i = 0; i < LEN; i++) {
            int diagonal = 0;
            for (int j = 0; j < LEN; j++) {
                int above = row[j + 1];
                int best = above > row[j] ? above : row[j];
                if (a[i] == b[j])
                    best = diagonal + 1;
                diagonal = above;
                row[j + 1] = best;
            }
        }
        sum += (u64)row[LEN];
    }
    return sum;
}

static u64 matmul(int rounds) {
    enum { N = 64 };
    static u32 a[N][N], b[N][N], c[N][N];
    u32 sum = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            a[i][j] = (u32)next();
            b[i][j] = (u32)next();
        }
    for (int r = 0; r < rounds * 3; r++) {
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) {
                u32 x = 0;
                for (int k = 0; k < N; k++)
                    x += a[i][k] * b[k][j];
                c[i][j] = x;
            }
        sum += c[r % N][r % 7];
        a[r % N][r % 5] += sum;
    }
    return sum;
}

static int ascending(const void *a, const void *b) {
    u64 x = *(const u64 *)a, y = *(const u64 *)b;
    return (x > y) - (x < y);
}

static u64 sort(int rounds) {
    enum { N = 5000 };
    static u64 list[N];
    u64 sum = 0;
    for (int r = 0; r < rounds; r++) {
        for (int i = 0; i < N; i++)
            list[i] = next();
        qsort(list, N, sizeof *list, ascending);
        for (int i = 0; i < N; i += 97)
            sum = sum * 31 + list[i];
    }
    return sum;
}

static __attribute__((noinline)) u64 fib_of(int n) {
    return n < 2 ? (u64)n : fib_of(n - 1) + fib_of(n - 2);
}

static u64 fib(int rounds) {
    u64 sum = 0;
    for (int r = 0; r < rounds; r++)
        sum += fib_of(21 + (r & 1));
    return sum;
}

enum { PUSH, ADD, MUL, LESS, JUMP_IF, LOAD, STORE, HALT };

static u64 bytecode(int rounds) {
    /* i = 0; x = 1; while (i < n) { x = x * 3 + i; i = i + 1; } */
    static const int program[] = {
        PUSH, 0, STORE, 0, PUSH, 1, STORE, 1,
        LOAD, 1, PUSH, 3, MUL, LOAD, 0, ADD, STORE, 1,
        LOAD, 0, PUSH, 1, ADD, STORE, 0,
        LOAD, 0, LOAD, 2, LESS, JUMP_IF, 8, HALT,
    };
    u64 stack[16], slots[3] = {0, 0, (u64)rounds * 20000};
    int at = 0, top = 0;
    for (;;) {
        switch (program[at++]) {
        case PUSH: stack[top++] = (u64)program[at++]; break;
        case ADD: top--; stack[top - 1] += stack[top]; break;
        case MUL: top--; stack[top - 1] *= stack[top]; break;
        case LESS: top--; stack[top - 1] = stack[top - 1] < stack[top]; break;
        case JUMP_IF: top--; at = stack[top] ? program[at] : at + 1; break;
        case LOAD: stack[top++] = slots[program[at++]]; break;
        case STORE: slots[program[at++]] = stack[--top]; break;
        default: return slots[1];
        }
    }
}

/* What small processors are rated by, in one kernel: a linked list that is searched, reversed and
 * merged in order, products of 16-bit matrices, a state machine over text, and a checksum. */

struct link {
    struct link *next;
    int key, data;
};

static struct link *merged(struct link *a, struct link *b) {
    struct link head, *tail = &head;
    while (a && b) {
        struct link **least = a->key <= b->key ? &a : &b;
        tail->next = *least;
        tail = *least;
        *least = (*least)->next;
    }
    tail->next = a ? a : b;
    return head.next;
}

static struct link *sorted(struct link *list) {
    if (!list || !list->next)
        return list;
    struct link *middle = list, *end = list->next;
    while (end && end->next) {
        middle = middle->next;
        end = end->next->next;
    }
    struct link *second = middle->next;
    middle->next = NULL;
    return merged(sorted(list), sorted(second));
}

static u32 crc16(u32 sum, u32 value) {
    for (int bit = 0; bit < 16; bit++, value >>= 1)
        sum = (sum ^ value) & 1 ? sum >> 1 ^ 0xa001 : sum >> 1;
    return sum;
}

static u32 of_list(u32 sum) {
    static struct link nodes[200];
    struct link *list = NULL, *back = NULL;
    for (int n = 0; n < 200; n++) {
        nodes[n] = (struct link){list, (int)(next() % 1000), n};
        list = &nodes[n];
    }
    for (int n = 0; n < 20; n++) {
        struct link *at = list;
        while (at && at->data != n * 9)
            at = at->next;
        sum = crc16(sum, at ? (u32)at->key : 0);
    }
    for (struct link *at = sorted(list), *rest; at; at = rest) {
        rest = at->next;
        at->next = back;
        back = at;
        sum = crc16(sum, (u32)at->key);
    }
    return sum;
}

static u32 of_matrices(u32 sum) {
    enum { SIDE = 20 };
    static int16_t a[SIDE][SIDE], b[SIDE][SIDE];
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            a[i][j] = (int16_t)next();
            b[i][j] = (int16_t)(a[i][j] >> 3);
        }
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            u32 cell = 0;
            for (int k = 0; k < SIDE; k++)
                cell += (u32)(a[i][k] * b[k][j]);
            sum = crc16(sum, cell >> 4 & 0xffff);
        }
    return sum;
}

static u32 of_text(u32 sum) {
    enum { START, SIGN, WHOLE, FRACTION, EXPONENT, WRONG };
    static const char letters[] = "0123456789+-.eE,x";
    u32 counts[6] = {0};
    int state = START;
    for (int n = 0; n < 1000; n++) {
        char c = letters[next() % (sizeof letters - 1)];
        int digit = c >= '0' && c <= '9';
        counts[state]++;
        if (c == ',') {
            state = START;
            continue;
        }
        switch (state) {
        case START: state = digit ? WHOLE : c == '+' || c == '-' ? SIGN : WRONG; break;
        case SIGN: state = digit ? WHOLE : WRONG; break;
        case WHOLE: state = digit ? WHOLE : c == '.' ? FRACTION : WRONG; break;
        case FRACTION: state = digit ? FRACTION : c == 'e' || c == 'E' ? EXPONENT : WRONG; break;
        case EXPONENT: state = digit ? EXPONENT : WRONG; break;
        default: break;
        }
    }
    for (int n = 0; n < 6; n++)
        sum = crc16(sum, counts[n]);
    return sum;
}

static u64 mixed(int rounds) {
    u32 sum = 0xffff;
    for (int n = 0; n < rounds * 200; n++)
        sum = of_text(of_matrices(of_list(sum)));
    return sum;
}

static const struct {
    const char *name;
    u64 (*run)(int rounds);
} kernels[] = {
    {"xorshift", xorshift}, {"crc", crc}, {"tree", tree}, {"indirect", indirect},
    {"sieve", sieve}, {"lcs", lcs}, {"matmul", matmul}, {"qsort", sort},
    {"fib", fib}, {"bytecode", bytecode}, {"mixed", mixed},
};

int main(int argc, char **argv) {
    if (argc == 3)
        for (unsigned k = 0; k < sizeof kernels / sizeof *kernels; k++)
            if (!strcmp(argv[1], kernels[k].name)) {
                seed = 88172645463325252u;
                printf("%s %016llx\n", argv[1], (unsigned long long)kernels[k].run(atoi(argv[2])));
                return 0;
            }
    fprintf(stderr, "usage: integer KERNEL ROUNDS\n");
    return 2;
}
