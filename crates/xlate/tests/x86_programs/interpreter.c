/* Loads nothing: says that it was called and goes on at the program's entry. */
#include "start.h"

static void program(int argc, char **argv, char **envp, u64 *auxv)
{
	(void)argc, (void)envp;
	u64 entry = 0, base = 0, headers = 0;
	for (u64 *a = auxv; a[0]; a += 2) {
		if (a[0] == 9)
			entry = a[1];
		if (a[0] == 7)
			base = a[1];
		if (a[0] == 3)
			headers = a[1];
	}
	extern char _start[], __ehdr_start[];
	print("interpreter\n");
	number("its base", base == (u64)__ehdr_start);
	number("another's entry", entry != (u64)_start && entry > headers);
	__asm__ volatile("mov %0, %%rsp\n\txor %%edx, %%edx\n\tjmp *%1" : : "r"(argv - 1), "r"(entry));
}
