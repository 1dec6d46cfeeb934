/* Processes: fork, vfork, execve, what children end with. */
#include "start.h"

static long ends(long child)
{
	int status = -1;
	number("waited", call6(WAIT4, child, (long)&status, 0, 0, 0, 0) == child);
	return status;
}

/* fork without copies of what the compiler keeps: registers must be the child's, too. */
static long with_registers(void)
{
	long child, sum;
	__asm__ volatile("mov $1, %%rbx\n\tmov $20, %%r12\n\tmov $300, %%r13\n\tmov $57, %%eax\n\tsyscall\n\t"
	                 "lea (%%rbx, %%r12), %%rdi\n\tadd %%r13, %%rdi"
	                 : "=a"(child), "=&D"(sum)
	                 :
	                 : "rbx", "r12", "r13", "rcx", "r11", "memory", "cc");
	if (!child)
		leave(sum % 200);
	return child;
}

static void program(int argc, char **argv, char **envp, u64 *auxv)
{
	(void)auxv;
	static volatile int shared = 1;
	if (argc > 1 && same(argv[1], "child")) {
		print("a child with ");
		for (char **e = envp; *e; e++)
			print(*e), print(" ");
		print("\n");
		char names[6 * 65];
		call(UNAME, names, 0, 0);
		print(names + 4 * 65), print("\n");
		char path[200];
		long len = call(READLINK, "/proc/self/exe", path, 199);
		path[len > 0 ? len : 0] = 0;
		number("its own file", same(path, argv[2]));
		leave(9);
	}
	number("registers", ends(with_registers()));
	long child = call(FORK, 0, 0, 0);
	if (!child) {
		shared = 2;
		__asm__ volatile("ud2");
	}
	number("signal", ends(child));
	number("its own memory", shared);
	char path[200];
	long len = call(READLINK, "/proc/self/exe", path, 199);
	path[len > 0 ? len : 0] = 0;
	char *arguments[] = {argv[0], "child", path, 0}, *environment[] = {"ONE=1", "TWO=2", 0};
	child = call(FORK, 0, 0, 0);
	if (!child) {
		call(EXECVE, path, arguments, environment);
		leave(1);
	}
	number("status", ends(child));
	/* vfork, as C libraries do it: the address of return is kept in a register. */
	__asm__ volatile("mov $58, %%eax\n\tsyscall\n\ttest %%eax, %%eax\n\tjnz 1f\n\t"
	                 "movl $5, shared_by_vfork(%%rip)\n\tmov $231, %%eax\n\tmov $6, %%edi\n\tsyscall\n1:"
	                 : "=a"(child)
	                 :
	                 : "rcx", "r11", "rdi", "memory", "cc");
	extern volatile int shared_by_vfork;
	number("status", ends(child));
	number("the parent's memory", shared_by_vfork);
	number("nothing there", call(EXECVE, "/nowhere", arguments, environment));
	long pipe[2];
	call(PIPE, pipe, 0, 0);
	call(EXECVE, path, arguments, environment);
	leave(1);
}
volatile int shared_by_vfork;
