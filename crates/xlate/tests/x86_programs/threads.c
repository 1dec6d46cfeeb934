/* Threads: clone, thread pointers, futexes, locked instructions, code that another thread writes. */
#include "start.h"

enum { THREADS = 4, ROUNDS = 20000 };
static volatile int done[THREADS + 1], lock, numbers[THREADS + 1], turns, result;
static volatile long plain, locked, by_exchange, joined;
static u64 stacks[THREADS + 1][1024], own[THREADS + 1][8];
static u8 *page;

static void wait_while(volatile int *word, int value)
{
	while (*word == value)
		call6(FUTEX, (long)word, 0, value, 0, 0, 0);
}

static void take(void)
{
	int held = 0;
	while (!__atomic_compare_exchange_n(&lock, &held, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
		call6(FUTEX, (long)&lock, 0, 1, 0, 0, 0);
		held = 0;
	}
}

static void give(void)
{
	__atomic_store_n(&lock, 0, __ATOMIC_SEQ_CST);
	call6(FUTEX, (long)&lock, 1, 1, 0, 0, 0);
}

__attribute__((used)) static void body(long n)
{
	u64 at;
	__asm__("mov %%fs:0, %0" : "=r"(at));
	if (at != (u64)own[n])
		number("another's fs", n);
	if (n == THREADS) {
		result = ((int (*)(volatile int *))(page + 1))(&turns);
		call(60, 0, 0, 0);
	}
	for (int round = 0; round < ROUNDS; round++) {
		__atomic_fetch_add(&locked, 1, __ATOMIC_SEQ_CST);
		long old = by_exchange;
		while (!__atomic_compare_exchange_n(&by_exchange, &old, old + n, 0, __ATOMIC_SEQ_CST,
		                                    __ATOMIC_SEQ_CST))
			;
		if (round % 100 == 0) {
			take();
			plain = plain + 1;
			give();
		}
	}
	done[n] = 1;
	call(60, 0, 0, 0);
}

/* clone(flags, stack, parent's word, child's word, thread pointer) */
static long begins(long n)
{
	u64 *top = stacks[n] + 1024;
	own[n][0] = (u64)own[n];
	long flags = 0x100 | 0x200 | 0x400 | 0x800 | 0x10000 | 0x80000 | 0x100000 | 0x200000;
	register long r10 __asm__("r10") = (long)&numbers[n];
	register long r8 __asm__("r8") = (long)own[n];
	register long r9 __asm__("r9") = n;
	numbers[n] = -1;
	long result;
	__asm__ volatile("syscall\n\ttest %%rax, %%rax\n\tjnz 1f\n\tmov %%r9, %%rdi\n\tcall body\n1:"
	                 : "=a"(result)
	                 : "a"(56), "D"(flags), "S"(top), "d"(&numbers[n]), "r"(r10), "r"(r8), "r"(r9)
	                 : "rcx", "r11", "memory", "cc");
	return result;
}

static void program(int argc, char **argv, char **envp, u64 *auxv)
{
	(void)argc, (void)argv, (void)envp, (void)auxv;
	for (long n = 0; n < THREADS; n++)
		number("began", begins(n) > 0);
	for (long n = 0; n < THREADS; n++) {
		while (numbers[n] != 0)
			wait_while(&numbers[n], numbers[n]);
		joined++;
	}
	/* A loop that ends when the 0 in its move becomes another number; an alarm ends the program if
	   it does not. */
	static const u8 loop[] = {
		0xff, 0x07,                   /* inc dword [rdi] */
		0xb8, 0, 0, 0, 0,             /* mov eax, 0 */
		0x85, 0xc0, 0x74, 0xf5, 0xc3, /* test eax, eax; jz the inc; ret */
	};
	page = (u8 *)call6(MMAP, 0, 4096, 7, 0x22, -1, 0);
	memcpy(page + 1, loop, sizeof loop);
	call(ALARM, 60, 0, 0);
	begins(THREADS);
	/* The thread goes round in code that was read before. */
	while (turns < 1000)
		call(YIELD, 0, 0, 0);
	*(volatile int *)(page + 4) = 77;
	while (numbers[THREADS] != 0)
		wait_while(&numbers[THREADS], numbers[THREADS]);
	number("written by another", result);
	number("joined", joined);
	number("locked", locked);
	number("by exchange", by_exchange);
	number("plain", plain);
	number("own word", done[0] + done[1] + done[2] + done[3]);
	leave(0);
}
