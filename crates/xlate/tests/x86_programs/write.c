/* Writes and exits. */
#include "start.h"

static void program(int argc, char **argv, char **envp, u64 *auxv)
{
	(void)argv, (void)envp, (void)auxv;
	print("hello\n");
	u64 sum = 0;
	for (u64 n = 1; n < 5000; n++)
		sum = sum * 31 + (n ^ sum >> 7) / (n % 13 + 1);
	number("sum", (long)(sum >> 1));
	number("arguments", argc);
	leave(7);
}
