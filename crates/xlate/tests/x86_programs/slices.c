/* Computes while a timer stops it again and again at places of its own choice. The handler spoils
   every register that it may, and flags. */
#include "start.h"

enum { FEWEST = 200, MOST = 4000 };
static volatile long ticks;
static u64 soon[4] = {0, 0, 0, 100};

/* The timer rings again, but not for ever: where a handler takes longer than that, each return from
   it would meet the next signal and nothing would be computed. */
static void tick(int signal, struct info *info, struct context *context)
{
	(void)signal, (void)info, (void)context;
	if (++ticks < MOST)
		call(SETITIMER, 0, soon, 0);
	__asm__ volatile("mov $-1, %%rax\n\tmov %%rax, %%rcx\n\tmov %%rax, %%rdx\n\tmov %%rax, %%rsi\n\t"
	                 "mov %%rax, %%rdi\n\tmov %%rax, %%r8\n\tmov %%rax, %%r9\n\tmov %%rax, %%r10\n\t"
	                 "mov %%rax, %%r11\n\tadd $1, %%rax\n\tstd\n\tcld" ::
	                     : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc");
}

static u64 mix(u64 a, u64 b)
{
	return (a << 13 | a >> 51) * 0x9e3779b97f4a7c15 + b / (a % 1000 + 1);
}

static void program(int argc, char **argv, char **envp, u64 *auxv)
{
	(void)argc, (void)argv, (void)envp, (void)auxv;
	static u8 from[4096], to[4096];
	on(SIGALRM, tick, SA_RESTART);
	call(SETITIMER, 0, soon, 0);
	u64 sum = 1;
	/* At least so many interruptions; the result is that of a fixed number of rounds. */
	long rounds = 0;
	u64 first = 0;
	do {
		sum = 1;
		for (u64 n = 0; n < 4096; n++)
			from[n] = sum = mix(sum, n);
		for (int n = 0; n < 50; n++) {
			void *source = from, *target = to;
			long count = 4096;
			__asm__ volatile("rep movsb" : "+S"(source), "+D"(target), "+c"(count)::"memory");
			for (u64 m = 0; m < 4096; m++) {
				u64 high, low = to[m] * sum;
				__asm__("add %2, %0\n\tadc $0, %1" : "+r"(low), "=&r"(high) : "r"(sum), "1"(n));
				sum = mix(low, high);
				from[m] = sum;
			}
		}
		if (rounds++ && sum != first)
			number("a round differs", rounds);
		first = sum;
	} while (ticks < FEWEST);
	u64 none[4] = {0};
	call(SETITIMER, 0, none, 0);
	number("sum", sum >> 1);
	leave(0);
}
