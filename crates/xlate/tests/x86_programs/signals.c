/* Signals: queues, masks, stacks, restarts, frames that handlers change. */
#include "start.h"

static volatile int count;
static u64 alternate[2048];

static void counts(int signal, struct info *info, struct context *context)
{
	(void)context;
	number("signal", signal);
	number("code", info->code);
	number("sender is this one", (int)info->address == call(GETPID, 0, 0, 0));
	u64 here;
	__asm__("mov %%rsp, %0" : "=r"(here));
	number("on the other stack", here - (u64)alternate < sizeof alternate);
	number("flags of the stack", context->stack[1]);
	number("mask", context->mask);
	number("floats aligned", (u64)context->floats % 64);
	number("control word", *(unsigned short *)context->floats);
	number("aligned", ((u64)context - 8) % 16);
	number("flags", context->flags & 6);
	count++;
}

static void changes(int signal, struct info *info, struct context *context)
{
	(void)info;
	context->registers[R12] += signal;
	context->registers[RFLAGS] ^= 0x41;
	context->mask |= 1ul << (SIGUSR2 - 1);
}

static void nests(int signal, struct info *info, struct context *context)
{
	(void)info, (void)context;
	number("begins", signal);
	if (signal == SIGUSR1)
		call(KILL, call(GETPID, 0, 0, 0), SIGUSR2, 0);
	number("ends", signal);
}

static volatile int rings;

static void interrupts(int signal, struct info *info, struct context *context)
{
	(void)info, (void)context;
	if (rings++ == 0)
		number("alarm", signal);
}

enum { DEEP_LEN = 32768 };
static u8 room[3 * DEEP_LEN];

/* Nests on an alternate stack until that is full. The kernel makes no frame below its begin. */
static void deepens(int signal, struct info *info, struct context *context)
{
	static int depth;
	(void)info, (void)context;
	u64 here;
	__asm__("mov %%rsp, %0" : "=r"(here));
	if (here < (u64)room + DEEP_LEN || ++depth > 1000)
		leave(5);
	call(KILL, call(GETPID, 0, 0, 0), signal, 0);
}

/* Calls kill and shows registers and flags behind it. */
static void changed(long pid, int signal)
{
	u64 r12 = 1000, carry, zero, below;
	register u64 twelve __asm__("r12") = r12;
	__asm__ volatile("xor %%ebx, %%ebx\n\tlea -256(%%rsp), %%rsp\n\tmovq $77, -64(%%rsp)\n\t"
	                 "stc\n\tmov $62, %%eax\n\tsyscall\n\t"
	                 "setc %%bl\n\tmov %%rbx, %1\n\tsetz %%bl\n\tmov %%rbx, %2\n\t"
	                 "mov -64(%%rsp), %3\n\tlea 256(%%rsp), %%rsp"
	                 : "+r"(twelve), "=&r"(carry), "=&r"(zero), "=&r"(below)
	                 : "D"(pid), "S"((long)signal)
	                 : "rax", "rbx", "rcx", "r11", "memory", "cc");
	number("changed register", twelve);
	number("changed carry", carry);
	number("changed zero", zero);
	number("below the stack", below);
}

static void program(int argc, char **argv, char **envp, u64 *auxv)
{
	(void)argc, (void)argv, (void)envp, (void)auxv;
	long pid = call(GETPID, 0, 0, 0);
	u64 stack[3] = {(u64)alternate, 0, sizeof alternate};
	number("sigaltstack", call(SIGALTSTACK, stack, 0, 0));
	on(SIGUSR1, counts, SA_ONSTACK);
	call(KILL, pid, SIGUSR1, 0);
	on(SIGUSR1, counts, 0);
	call(KILL, pid, SIGUSR1, 0);
	on(SIGUSR1, changes, 0);
	changed(pid, SIGUSR1);
	u64 mask = 0;
	call6(SIGPROCMASK, 0, 0, (long)&mask, 8, 0, 0);
	number("mask", mask);
	mask = 0;
	call6(SIGPROCMASK, 2, (long)&mask, 0, 8, 0, 0);
	on(SIGUSR1, nests, 0), on(SIGUSR2, nests, 0);
	call(KILL, pid, SIGUSR1, 0);
	struct action old;
	number("sigaction", call6(SIGACTION, SIGUSR1, 0, (long)&old, 8, 0, 0));
	number("its flags", old.flags);
	number("its restorer", old.restorer == (void *)restorer);
	number("its handler", old.handler == (void *)nests);
	/* Blocked, then let through. */
	mask = 1ul << (SIGUSR1 - 1) | 1ul << (SIGUSR2 - 1);
	call6(SIGPROCMASK, 0, (long)&mask, 0, 8, 0, 0);
	call(KILL, pid, SIGUSR2, 0), call(KILL, pid, SIGUSR1, 0);
	print("blocked\n");
	call6(SIGPROCMASK, 1, (long)&mask, 0, 8, 0, 0);
	/* A wait that a signal ends, and a read that begins again. The alarm rings until the wait has
	   begun, which it may not have done at the first time. */
	on(SIGALRM, interrupts, 0);
	u64 timer[4] = {0, 20000, 0, 20000};
	call(SETITIMER, 0, timer, 0);
	long paused = call(PAUSE, 0, 0, 0);
	timer[1] = timer[3] = 0;
	call(SETITIMER, 0, timer, 0);
	number("pause", paused);
	on(SIGALRM, interrupts, SA_RESTART);
	rings = 0, timer[3] = 20000;
	int pair[2];
	call(PIPE, pair, 0, 0);
	long child = call(FORK, 0, 0, 0);
	if (!child) {
		long wait[2] = {0, 100000000};
		call(NANOSLEEP, wait, 0, 0);
		call(WRITE, pair[1], "end", 3);
		leave(3);
	}
	call(SETITIMER, 0, timer, 0);
	char text[4];
	number("read", call(READ, pair[0], text, 3));
	int status;
	number("wait", call6(WAIT4, child, (long)&status, 0, 0, 0, 0) == child);
	number("status", status);
	/* Without a restorer there is no way back: the kernel kills. */
	child = call(FORK, 0, 0, 0);
	if (!child) {
		struct action a = {counts, SA_SIGINFO, 0, 0};
		call6(SIGACTION, SIGUSR1, (long)&a, 0, 8, 0, 0);
		call(KILL, call(GETPID, 0, 0, 0), SIGUSR1, 0);
		leave(4);
	}
	call6(WAIT4, child, (long)&status, 0, 0, 0, 0);
	number("status", status);
	child = call(FORK, 0, 0, 0);
	if (!child) {
		u64 deep[3] = {(u64)room + DEEP_LEN, 0, DEEP_LEN};
		call(SIGALTSTACK, deep, 0, 0);
		on(SIGUSR1, deepens, SA_ONSTACK | SA_NODEFER);
		call(KILL, call(GETPID, 0, 0, 0), SIGUSR1, 0);
		leave(6);
	}
	call6(WAIT4, child, (long)&status, 0, 0, 0, 0);
	number("killed where its stack ended", status & 0x7f);
	leave(count);
}
