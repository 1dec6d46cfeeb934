/* What a program finds at its begin. */
#include "start.h"

static void program(int argc, char **argv, char **envp, u64 *auxv)
{
	u64 stack = (u64)argv - 8;
	number("aligned", stack % 16);
	for (int n = 0; n < argc; n++)
		print(n ? argv[n] : "program"), print("\n");
	for (char **e = envp; *e; e++)
		print(*e), print("\n");
	long platform = 0, random = 0, name = 0, page = 0, headers = 0, entry = 0;
	long capabilities = 0, user = -1;
	for (u64 *a = auxv; a[0]; a += 2) {
		if (a[0] == 15)
			platform = a[1];
		if (a[0] == 25)
			random = a[1];
		if (a[0] == 31)
			name = a[1];
		if (a[0] == 6)
			page = a[1];
		if (a[0] == 3)
			headers = a[1];
		if (a[0] == 9)
			entry = a[1];
		if (a[0] == 16)
			capabilities = a[1];
		if (a[0] == 11)
			user = a[1];
	}
	extern char _start[];
	print((char *)platform), print("\n");
	number("random", random != 0 && *(u64 *)random != 0);
	number("named as started", same((char *)name, argv[0]));
	number("page", page);
	number("headers", headers == 0x400040);
	number("entry", entry == (long)_start);
	u32 eax = 1, ebx, ecx, edx;
	__asm__("cpuid" : "+a"(eax), "=b"(ebx), "=c"(ecx), "=d"(edx));
	number("capabilities are cpuid's", capabilities == edx);
	number("user is getuid's", user == call(GETUID, 0, 0, 0));
	char names[6 * 65];
	call(UNAME, names, 0, 0);
	print(names), print(" "), print(names + 4 * 65), print("\n");
	leave(argc);
}
