/* What handlers are told of faults, and how the program goes on behind what they changed. */
#include "start.h"

static volatile u64 seen;
static u8 *page;

#define TRY(name, code, ...)                                                                       \
	do {                                                                                       \
		u64 mark = 0;                                                                      \
		print(name "\n");                                                                  \
		__asm__ volatile("mov $77, %%rbx\n\tmov %1, %%r14\n\tlea 2f(%%rip), %%rax\n\t"      \
		                 "lea 1f(%%rip), %%rcx\n\tmov %%rax, where_behind(%%rip)\n\t"      \
		                 "mov %%rcx, where_fault(%%rip)\n\tmov %%rsp, stack_before(%%rip)\n\t" \
		                 "mov $1, %%ecx\n\txor %%edx, %%edx\n\t" \
		                 "1:\t" code "\n\tnop\n\t2:\tmov %%r15, %0"                         \
		                 : "=r"(mark)                                                      \
		                 : "r"(__VA_ARGS__)                                                \
		                 : "rax", "rbx", "rcx", "rdx", "r14", "r15", "memory", "cc");       \
		number("mark", mark);                                                              \
	} while (0)
u64 where_behind, where_fault, stack_before;

static void told(int signal, struct info *info, struct context *context)
{
	u64 rip = context->registers[RIP], at = info->address;
	number("signal", signal);
	number("code", info->code);
	number("address", at - (u64)page < 65536         ? (long)(at - (u64)page)
	                  : at - where_fault < 16       ? 1000000 + (long)(at - where_fault)
	                                                : (long)at);
	number("rip", rip - where_fault < 16 ? (long)(rip - where_fault) : (long)(rip - (u64)page));
	number("exception", context->registers[TRAP]);
	if (context->registers[TRAP] == 14)
		number("cr2 is the address", context->registers[CR2] == at);
	number("rbx", context->registers[RBX]);
	number("cs", context->registers[SEGMENTS] & 0xffff);
	seen++;
	context->registers[RIP] = where_behind;
	context->registers[RSP] = stack_before;
	context->registers[R15] = 1000 + signal;
}

static void program(int argc, char **argv, char **envp, u64 *auxv)
{
	(void)envp, (void)auxv;
	int which = argc > 1 ? argv[1][0] - '0' : -1;
	static u8 other_stack[16384];
	u64 stack[3] = {(u64)other_stack, 0, sizeof other_stack};
	number("sigaltstack", call(SIGALTSTACK, stack, 0, 0));
	/* Pages; the second is read-only, the third and the sixth are gone, the fourth has no rights. */
	page = (u8 *)call6(MMAP, 0, 6 * 4096, 7, 0x22, -1, 0);
	call(MPROTECT, page + 4096, 4096, 1);
	call(MUNMAP, page + 8192, 4096, 0);
	call(MPROTECT, page + 3 * 4096, 4096, 0);
	call(MUNMAP, page + 5 * 4096, 4096, 0);
	if (which < 0)
		for (int signal = 4; signal <= 11; signal++)
			on(signal, told, SA_NODEFER | SA_ONSTACK);
	u64 low = (u64)page;
	/* An instruction of five bytes whose last is on the next page, which is not executable. */
	page[4094] = 0xb8, page[4095] = 1;
	/* The same before the page that is gone. */
	page[20478] = 0xb8, page[20479] = 1;
	if (which < 0 || which == 0)
		TRY("load from nowhere", "mov 8, %%rax", low);
	if (which < 0 || which == 1)
		TRY("store to read-only memory", "movl $1, 4100(%%r14)", low);
	if (which < 0 || which == 2)
		TRY("load over a page's end", "mov 8188(%%r14), %%rax", low);
	if (which < 0 || which == 3)
		TRY("division by zero", "div %%rdx", low);
	if (which < 0 || which == 4)
		TRY("quotient too long", "mov $2, %%edx; div %%ecx", low);
	if (which < 0 || which == 5)
		TRY("int3", "int3", low);
	if (which < 0 || which == 6)
		TRY("ud2", "ud2", low);
	if (which < 0 || which == 7)
		TRY("hlt", "hlt", low);
	if (which < 0 || which == 8)
		TRY("an address that is none", "mov $1, %%rax; shl $63, %%rax; mov (%%rax), %%rax", low);
	if (which < 0 || which == 9)
		TRY("a jump to nowhere", "lea 8200(%%r14), %%rax; jmp *%%rax", low);
	if (which >= 0)
		leave(1);
	TRY("a jump to data", "lea 4096(%%r14), %%rax; jmp *%%rax", low);
	TRY("an instruction over a page's end", "lea 4094(%%r14), %%rax; jmp *%%rax", low);
	TRY("an instruction over a page's end to nowhere", "lea 20478(%%r14), %%rax; jmp *%%rax", low);
	TRY("a misaligned vector", "movaps 8(%%r14), %%xmm0", low);
	TRY("a vector over a page's end", "movups 8185(%%r14), %%xmm0", low);
	TRY("an access to memory without rights", "addl $1, 3 * 4096(%%r14)", low);
	TRY("the kernel's memory", "mov $-4096, %%rax; mov (%%rax), %%rax", low);
	TRY("a stack at nowhere", "lea 8200(%%r14), %%rsp; pop %%rax", low);
	TRY("a push to nowhere", "lea 12288(%%r14), %%rsp; push %%rax", low);
	TRY("cli", "cli", low);
	TRY("a byte from a port", "inb %%dx, %%al", low);
	TRY("a word to a port", "outl %%eax, $0x80", low);
	TRY("bytes from a port", "rep insb", low);
	TRY("rdmsr", "rdmsr", low);
	TRY("int 3 of two bytes", ".byte 0xcd, 3", low);
	TRY("int 0x21", "int $0x21", low);
	TRY("fifteen bytes are the most",
	    ".byte 0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x90,0x90", low);
	number("faults", seen);
	leave(0);
}
