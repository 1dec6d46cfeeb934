/* The trap flag: behind which instructions the program gets SIGTRAP, and what its handler sees. */
#include "start.h"

enum { STEPS = 0x100, MOST = 100 };

struct seen {
	long signal, code, address, rip, steps, exception, own, rcx, call_flags, r12;
};
static volatile struct seen list[MOST];
static volatile int count;
u64 from, to, skips;
u8 bytes[4096], *gap;
u64 stack[4096];
int goes;
volatile int counted, lives = 1;

static void line(const char *name, volatile long *values, int count_of)
{
	char text[256];
	u64 at = sizeof text;
	text[--at] = '\n';
	for (int n = count_of - 1; n >= 0; n--) {
		u64 rest = values[n] < 0 ? -(u64)values[n] : (u64)values[n];
		do {
			text[--at] = '0' + rest % 10;
			rest /= 10;
		} while (rest);
		if (values[n] < 0)
			text[--at] = '-';
		text[--at] = ' ';
	}
	for (u64 n = length(name); n > 0; n--)
		text[--at] = name[n - 1];
	call(WRITE, 1, text + at, sizeof text - at);
}

static long place(u64 at)
{
	return at - from < 4096 ? (long)(at - from) : at < 4096 ? (long)-at : -9999;
}

static void told(int signal, struct info *info, struct context *context)
{
	u64 own, *r = context->registers;
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushf\n\tpop %0\n\tlea 128(%%rsp), %%rsp" : "=r"(own));
	int n = __sync_fetch_and_add(&count, 1);
	if (n < MOST) {
		volatile struct seen *s = &list[n];
		s->signal = signal, s->code = info->code;
		s->address = signal == SIGUSR1 ? 0 : place(info->address), s->rip = place(r[RIP]);
		s->steps = r[RFLAGS] & STEPS;
		s->exception = r[TRAP], s->own = own & STEPS;
		s->rcx = r[RCX] < 4096 ? (long)r[RCX] : place(r[RCX]);
		s->call_flags = r[R11] & STEPS, s->r12 = r[R12];
	}
	if (signal != SIGTRAP && signal != SIGUSR1)
		r[RIP] += skips;
	if (r[RIP] == to)
		r[RFLAGS] &= ~(u64)STEPS;
}

#define HEAD                                                                                       \
	"lea 1f(%%rip), %%rax\n\tmov %%rax, from(%%rip)\n\tlea 2f(%%rip), %%rax\n\t"                \
	"mov %%rax, to(%%rip)\n\tmov $3, %%ecx\n\tlea bytes(%%rip), %%rsi\n\t"                      \
	"lea bytes+100(%%rip), %%rdi\n\txor %%eax, %%eax\n\txor %%edx, %%edx\n\txor %%r11d, %%r11d\n\t" \
	"xor %%r12d, %%r12d\n\t"
#define RUN(head, code)                                                                            \
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\t" HEAD head "\n1:\t" code                       \
	                 "\n2:\tnop\n\tnop\n\tlea 128(%%rsp), %%rsp" ::                             \
	                     : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11",  \
	                       "r12", "r13", "r14", "r15", "memory", "cc")
#define SET "pushfq\n\torq $0x100, (%%rsp)\n\tpopfq"

/* What is called with the flag and without it. */
__asm__(".text\ncalled:\n\tinc %rbx\n\tinc %rbx\n\tret\n");

/* A handler that steps itself, and shows where it stands by a register. */
static void steps_too(int signal, struct info *info, struct context *context)
{
	(void)info;
	context->registers[R12]++;
	if (signal == SIGUSR1) {
		RUN(SET, "nop\n\tinc %%rbx");
		context->registers[RFLAGS] |= STEPS;
		to = context->registers[RIP] + 6;
	}
}

static u64 soon[4] = {0, 0, 0, 200};
static int rings;

/* Has the timer ring again, but not for ever: where a step takes longer than that, it would be all that
 * is done. */
static void ring(int signal, struct info *info, struct context *context)
{
	(void)signal, (void)info, (void)context;
	if (++rings < 64) call(SETITIMER, 0, soon, 0);
}

static void show(const char *name)
{
	print(name);
	number(":", count);
	for (int n = 0; n < count && n < MOST; n++)
		line("", (volatile long *)&list[n], sizeof list[n] / sizeof(long));
	count = 0;
}

#define STEP(name, skip, code)                                                                     \
	do {                                                                                       \
		skips = skip;                                                                      \
		RUN(SET, code);                                                                    \
		show(name);                                                                        \
	} while (0)

static void ordinary(void)
{
	STEP("plain", 0, "nop\n\tnop\n\tadd $1, %%rbx");
	STEP("pushf", 0, "pushfq\n\tpop %%r12\n\tand $0x100, %%r12d\n\tpushfw\n\tpopw %%bx");
	STEP("branches", 0,
	     "test %%eax, %%eax\n\tjnz 3f\n\tjz 4f\n3:\tnop\n4:\tcall 5f\n\tjmp 2f\n5:\tret");
	STEP("loop", 0, "3:\tloop 3b\n\tmov $2, %%ecx\n4:\tdec %%ecx\n\tjnz 4b\n\tjrcxz 2f\n\tnop");
	STEP("jumps by register and memory", 0,
	     "lea 3f(%%rip), %%rbx\n\tjmp *%%rbx\n\tnop\n3:\tlea 4f(%%rip), %%rbx\n\tpush %%rbx\n\t"
	     "jmp *(%%rsp)\n\tnop\n4:\tpop %%rbx\n\tlea 5f(%%rip), %%rbx\n\tcall *%%rbx\n\tjmp 2f\n5:\tret");
	STEP("an equal comparison and its readers", 0,
	     "cmp %%eax, %%edx\n\tsete %%bl\n\tcmove %%rcx, %%r12\n\tje 3f\n\tnop\n3:\tadc $0, %%r12");
	STEP("x87", 0, "fld1\n\tfldpi\n\tfaddp\n\tfstp %%st(0)\n\tnop");
	STEP("locked", 0,
	     "lock addq $1, bytes(%%rip)\n\txchg %%rbx, bytes(%%rip)\n\tlock cmpxchg %%rbx, bytes(%%rip)");
	STEP("vectors", 0, "pxor %%xmm0, %%xmm0\n\tpcmpeqd %%xmm1, %%xmm1\n\tmovq %%xmm1, %%r12\n\tdivps "
	                   "%%xmm1, %%xmm0\n\tstmxcsr bytes(%%rip)");
	STEP("division of 128 bits", 0, "mov $1, %%edx\n\tmov $2, %%r8d\n\tdiv %%r8\n\tnop");
	STEP("popf sets", 0, "pushfq\n\tpopfq\n\tnop");
	STEP("popf clears", 0, "pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq\n\tnop\n\tnop");
	STEP("popf clears and sets", 0,
	     "pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq\n\tnop\n\tpushfq\n\torq $0x100,(%%rsp)\n\tpopfq\n\t"
	     "nop\n\tnop");
	STEP("popf of 16 bits", 0, "pushfw\n\tandw $~0x100, (%%rsp)\n\tpopfw\n\tpushfw\n\torw $0x100, "
	                           "(%%rsp)\n\tpopfw\n\tpushfw\n\tpopfw\n\tnop");
	STEP("flags", 0, "std\n\tpushfq\n\tpop %%r12\n\tcld\n\tstc\n\tlahf\n\tsetc %%r12b\n\tsahf");
}

static void strings(void)
{
	STEP("rep movsb", 0, "rep movsb\n\tnop");
	STEP("rep of none", 0, "xor %%ecx, %%ecx\n\trep movsb\n\trepe cmpsb");
	STEP("rep of one", 0, "mov $1, %%ecx\n\trep stosb\n\tmov $1, %%ecx\n\trep lodsq");
	STEP("repe cmpsb", 0, "repe cmpsb");
	STEP("repne scasb", 0, "movb $1, %%al\n\trepne scasb");
	STEP("repe scasw that differs", 0, "movb $1, %%al\n\trepe scasw\n\tsete %%r12b");
	STEP("strings without rep", 0, "movsb\n\tlodsw\n\tscasl\n\tcmpsq");
}

static void events(void)
{
	STEP("syscall", 0, "mov $39, %%eax\n\tsyscall\n\tnop\n\tnop");
	STEP("syscalls", 0, "mov $24, %%eax\n\tsyscall\n\tsyscall\n\tmov $39, %%eax\n\tsyscall\n\tnop");
	STEP("cpuid", 0, "mov $0, %%eax\n\tcpuid\n\tnop");
	STEP("rdtsc", 0, "rdtsc\n\txor %%ecx, %%ecx");
	STEP("int3", 0, "nop\n\tint3\n\tnop\n\tint3");
	STEP("int 3", 0, "nop\n\t.byte 0xcd, 3\n\tnop");
	STEP("ud2", 2, "nop\n\tud2\n\tnop");
	STEP("hlt", 1, "nop\n\thlt\n\tnop");
	STEP("int 0x21", 2, "nop\n\tint $0x21\n\tnop");
	STEP("load from nowhere", 8, "nop\n\tmov 8, %%rax\n\tnop");
	STEP("jump to nowhere", 0, "lea 3f(%%rip), %%r12\n\tmov $64, %%eax\n\tmov %%r12, skips(%%rip)\n\t"
	                           "subq $64, skips(%%rip)\n\tjmp *%%rax\n3:\tnop\n\txor %%r12d, %%r12d");
	STEP("division by zero", 2, "nop\n\tdiv %%edx\n\tnop");
	STEP("rep movsb to nowhere", 2,
	     "mov gap(%%rip), %%rdi\n\tadd $4094, %%rdi\n\trep movsb\n\tnop");
	STEP("a signal", 0,
	     "mov $39, %%eax\n\tsyscall\n\tmov %%eax, %%edi\n\tmov $10, %%esi\n\tmov $62, %%eax\n\tsyscall\n\t"
	     "nop\n\tnop");
}

/* What a forked child ends with. */
#define CHILD(name, code)                                                                          \
	do {                                                                                       \
		int status = 0;                                                                    \
		long child = call(FORK, 0, 0, 0);                                                  \
		if (!child) {                                                                      \
			code;                                                                      \
			leave(count);                                                              \
		}                                                                                  \
		call6(WAIT4, child, (long)&status, 0, 0, 0, 0);                                    \
		number(name, status);                                                              \
	} while (0)

static void ends(void)
{
	CHILD("no handler", struct action a = {0}; call6(SIGACTION, SIGTRAP, (long)&a, 0, 8, 0, 0);
	      RUN(SET, "nop\n\tnop"));
	CHILD("ignored", struct action a = {(void *)1}; call6(SIGACTION, SIGTRAP, (long)&a, 0, 8, 0, 0);
	      RUN(SET, "nop\n\tnop"));
	CHILD("blocked", u64 mask = 1ul << (SIGTRAP - 1);
	      call6(SIGPROCMASK, 0, (long)&mask, 0, 8, 0, 0); RUN(SET, "nop\n\tnop"));
	/* The children of a process that steps go on stepping. */
	static int status;
	RUN(SET, "mov $57, %%eax\n\tsyscall\n\ttest %%eax, %%eax\n\tjz 3f\n\tmov %%eax, %%edi\n\t"
	         "lea bytes(%%rip), %%rsi\n\txor %%edx, %%edx\n\txor %%r10d, %%r10d\n\tmov $61, %%eax\n\t"
	         "syscall\n\tjmp 2f\n3:\tmov count(%%rip), %%edi\n\tmov $231, %%eax\n\tsyscall");
	status = *(int *)bytes;
	number("steps of a forked child", status >> 8);
	number("and of its parent", count);
	count = 0;
}

/* What shares its parent's memory, or is another program. */
static void others(void)
{
	RUN(SET, "mov $58, %%eax\n\tsyscall\n\ttest %%eax, %%eax\n\tjnz 2f\n\tnop\n\tmov $231, %%eax\n\t"
	         "xor %%edi, %%edi\n\tsyscall");
	number("steps of both by vfork", count);
	count = 0;
	static char *arguments[] = {"steps", "flag", "", 0}, *variables[] = {0};
	static char self[4096];
	call(READLINK, "/proc/self/exe", self, sizeof self - 1);
	CHILD("another program", register char **a __asm__("rsi") = arguments;
	      register char **v __asm__("rdx") = variables;
	      __asm__ volatile(SET "\n\tmov $59, %%eax\n\tsyscall" ::"D"(self), "r"(a), "r"(v)
	                       : "rax", "rcx", "r11", "memory", "cc"));
}

static void threads(void)
{
	/* A thread begins with its parent's flag. It waits until the parent steps no more. */
	RUN("mov $0x250f00, %%edi\n\tlea stack+32000, %%rsi\n\tlea lives(%%rip), %%r10\n\t" SET,
	    "mov $56, %%eax\n\tsyscall\n\ttest %%eax, %%eax\n\tjnz 2f\n\t"
	    "lea goes(%%rip), %%rdi\n\txor %%esi, %%esi\n\txor %%edx, %%edx\n\txor %%r10d, %%r10d\n\t"
	    "mov $202, %%eax\n\tsyscall\n\tmov count(%%rip), %%eax\n\tmov %%eax, counted(%%rip)\n\t"
	    "mov $60, %%eax\n\txor %%edi, %%edi\n\tsyscall");
	goes = 1;
	call(FUTEX, &goes, 1, 1);
	while (lives)
		call(YIELD, 0, 0, 0);
	number("steps of two threads", counted);
	count = 0;
}

/* Instructions that were stepped run on as others do when the flag is clear. */
static void later(void)
{
	RUN(SET, "call called");
	show("a call that is stepped");
	RUN("", "call called\n\tlea called(%%rip), %%rbx\n\tcall *%%rbx");
	show("the same call later");
	RUN(SET, "call called");
	show("and stepped again");
}

static void changes(void)
{
	/* A handler sets the flag of what it interrupts, and steps itself. */
	on(SIGUSR1, steps_too, 0);
	RUN("", "mov $39, %%eax\n\tsyscall\n\tmov %%eax, %%edi\n\tmov $10, %%esi\n\tmov $62, %%eax\n\tsyscall\n\t"
	        "inc %%rbx\n\tinc %%rbx\n\tinc %%rbx");
	show("a handler that steps");
	on(SIGUSR1, told, 0);
	/* Code that is written while it is stepped. */
	u8 *page = (u8 *)call6(MMAP, 0, 4096, 7, 0x22, -1, 0);
	static const u8 code[] = {0xfe, 0x07, 0xb8, 1, 0, 0, 0, 0xc3};
	memcpy(page, code, sizeof code);
	for (long n = 0; n < 3; n++) {
		u64 result;
		page[3] = 1 + n;
		__asm__ volatile("lea -128(%%rsp), %%rsp\n\tlea 2f(%%rip), %%rax\n\tmov %%rax, to(%%rip)\n\t"
		                 "mov %2, from(%%rip)\n\txor %%ecx, %%ecx\n\txor %%r11d, %%r11d\n\t"
		                 "xor %%r12d, %%r12d\n\t" SET "\n\tcall *%2\n2:\tlea 128(%%rsp), %%rsp"
		                 : "=a"(result)
		                 : "D"(page + 3), "b"(page)
		                 : "rcx", "r11", "r12", "memory", "cc");
		number("written", result);
		show("code that writes itself");
	}
	/* A timer that comes anywhere on a long way. */
	static u64 never[4];
	on(SIGALRM, ring, 0);
	call(SETITIMER, 0, soon, 0);
	RUN(SET, "mov $1000, %%ecx\n3:\tadd %%rcx, %%r12\n\tror $3, %%r12\n\tdec %%ecx\n\tjnz 3b\n\t"
	         "mov %%r12, bytes(%%rip)");
	call(SETITIMER, 0, never, 0);
	number("a long way", count);
	number("its sum", *(long *)bytes);
	count = 0;
}

static void program(int argc, char **argv, char **envp, u64 *auxv)
{
	(void)argv, (void)envp, (void)auxv;
	if (argc > 2) {
		u64 flags;
		__asm__ volatile("pushf\n\tpop %0" : "=r"(flags));
		leave(flags & STEPS ? 1 : 2);
	}
	for (int signal = SIGILL; signal <= SIGSEGV; signal++)
		if (signal != 9)
			on(signal, told, SA_NODEFER);
	if (argc > 1) {
		others();
		leave(0);
	}
	gap = (u8 *)call6(MMAP, 0, 8192, 3, 0x22, -1, 0);
	call(MUNMAP, gap + 4096, 4096, 0);
	*gap = 1;
	ordinary(), strings(), events(), ends(), threads(), later(), changes();
	leave(0);
}
