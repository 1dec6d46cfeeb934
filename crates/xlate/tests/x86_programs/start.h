/* What a program without a C library needs: the first instruction, system calls, numbers as text.
   The programs print what the kernel and the processor say; the same file, run by the host's
   processor, must print the same. */
typedef unsigned long u64;
typedef unsigned int u32;
typedef unsigned char u8;

__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n\tmov %rdx, %rsi\n"
        "\tand $-16, %rsp\n\tcall begin\n\thlt\n");

static inline long call6(long n, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;
	__asm__ volatile("syscall"
	                 : "=a"(result)
	                 : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
	                 : "rcx", "r11", "memory");
	return result;
}
#define call(n, a, b, c) call6(n, (long)(a), (long)(b), (long)(c), 0, 0, 0)

enum {
	READ, WRITE, OPEN, CLOSE, STAT, FSTAT, LSTAT, POLL, LSEEK, MMAP, MPROTECT, MUNMAP, BRK,
	SIGACTION, SIGPROCMASK, SIGRETURN, IOCTL, ACCESS = 21, PIPE, SELECT, YIELD, DUP = 32, DUP2,
	PAUSE, NANOSLEEP, SETITIMER = 38, ALARM = 37, GETPID = 39, CLONE = 56, FORK, VFORK, EXECVE,
	EXIT, WAIT4, KILL, UNAME, FCNTL = 72, GETCWD = 79, MKDIR = 83, RMDIR, UNLINK = 87, READLINK = 89,
	GETUID = 102, SIGALTSTACK = 131, ARCH_PRCTL = 158, GETTID = 186, TIME = 201, FUTEX,
	GETDENTS64 = 217, EXIT_GROUP = 231, EPOLL_WAIT = 232, EPOLL_CTL, TGKILL, OPENAT = 257,
	NEWFSTATAT = 262, EPOLL_CREATE1 = 291,
};

void *memset(void *to, int value, u64 count)
{
	for (u64 n = 0; n < count; n++)
		((volatile u8 *)to)[n] = value;
	return to;
}

void *memcpy(void *to, const void *from, u64 count)
{
	for (u64 n = 0; n < count; n++)
		((volatile u8 *)to)[n] = ((const u8 *)from)[n];
	return to;
}

static u64 length(const char *text)
{
	u64 n = 0;
	while (text[n])
		n++;
	return n;
}

static void print(const char *text)
{
	call(WRITE, 1, text, length(text));
}

static void number(const char *name, long value)
{
	char text[40];
	u64 at = sizeof text, rest = value < 0 ? -(u64)value : (u64)value;
	text[--at] = '\n';
	do {
		text[--at] = '0' + rest % 10;
		rest /= 10;
	} while (rest);
	if (value < 0)
		text[--at] = '-';
	text[--at] = ' ';
	print(name);
	call(WRITE, 1, text + at, sizeof text - at);
}

__attribute__((noreturn)) static void leave(int status)
{
	for (;;)
		call(EXIT_GROUP, status, 0, 0);
}

static int same(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

/* Signals: what the kernel's structures are. */
struct action {
	void *handler;
	u64 flags;
	void *restorer;
	u64 mask;
};
enum { SA_SIGINFO = 4, SA_RESTORER = 0x4000000, SA_ONSTACK = 0x8000000, SA_RESTART = 0x10000000,
       SA_NODEFER = 0x40000000 };
enum { SIGTRAP = 5, SIGILL = 4, SIGBUS = 7, SIGFPE = 8, SIGUSR1 = 10, SIGSEGV = 11, SIGUSR2 = 12,
       SIGALRM = 14, SIGCHLD = 17 };
struct info {
	int signal, error, code, pad;
	u64 address;
	u64 rest[13];
};
enum { R8, R9, R10, R11, R12, R13, R14, R15, RDI, RSI, RBP, RBX, RDX, RAX, RCX, RSP, RIP, RFLAGS,
       SEGMENTS, ERROR, TRAP, OLDMASK, CR2 };
struct context {
	u64 flags, link, stack[3];
	u64 registers[23];
	void *floats;
	u64 reserved[8];
	u64 mask;
};
typedef void handler(int, struct info *, struct context *);

__asm__(".globl restorer\nrestorer:\n\tmov $15, %eax\n\tsyscall\n");
extern void restorer(void);

static long on(int signal, handler *h, u64 flags)
{
	struct action a = {h, SA_SIGINFO | SA_RESTORER | flags, restorer, 0};
	return call6(SIGACTION, signal, (long)&a, 0, 8, 0, 0);
}

static void begin_with(int argc, char **argv, char **envp, u64 *auxv);
__attribute__((used)) static void begin(u64 *stack, u64 rdx)
{
	(void)rdx;
	int argc = stack[0];
	char **argv = (char **)(stack + 1), **envp = argv + argc + 1;
	char **end = envp;
	while (*end)
		end++;
	begin_with(argc, argv, envp, (u64 *)(end + 1));
	leave(0);
}
#define program begin_with
