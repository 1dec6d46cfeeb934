/* Instructions that begin in the middle of others. */
#include "start.h"

static void program(int argc, char **argv, char **envp, u64 *auxv)
{
	(void)argv, (void)envp, (void)auxv, (void)argc;
	/* mov eax, 0x90c3c031, entered at its second byte: xor eax, eax; ret. */
	static const u8 bytes[] = {0xb8, 0x31, 0xc0, 0xc3, 0x90, 0xc3};
	u8 *page = (u8 *)call6(MMAP, 0, 4096, 7, 0x22, -1, 0);
	memcpy(page, bytes, sizeof bytes);
	for (int n = 0; n < 3; n++) {
		number("whole", ((int (*)(void))page)());
		number("middle", ((int (*)(void))(page + 1))());
	}
	/* A loop that jumps into its own constant. */
	long sum = 0;
	__asm__("mov $5, %%ecx\n1:\t.byte 0x48, 0xb8\n2:\tinc %0\n\tdec %%ecx\n\tjz 3f\n\tnop\n\t"
	        "jmp 2b\n3:"
	        : "+b"(sum)
	        :
	        : "rcx", "rax", "cc");
	number("sum", sum);
	leave(0);
}
