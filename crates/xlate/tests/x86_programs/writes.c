/* Code that the program writes: into pages that it may execute, without telling anyone. */
#include "start.h"

typedef int function(void);
static u8 *page;

static void give(u8 *at, int value)
{
	/* mov eax, value; ret */
	at[0] = 0xb8;
	*(int *)(at + 1) = value;
	at[5] = 0xc3;
}

static int caller(void *arg)
{
	(void)arg;
	return 0;
}

static void program(int argc, char **argv, char **envp, u64 *auxv)
{
	(void)argc, (void)argv, (void)envp, (void)auxv, (void)caller;
	page = (u8 *)call6(MMAP, 0, 4 * 4096, 7, 0x22, -1, 0);
	function *first = (function *)page;
	for (int n = 0; n < 5; n++) {
		give(page, 100 + n);
		number("written", first());
		number("again", first());
	}
	/* Over the end of a page. */
	function *over = (function *)(page + 4094);
	for (int n = 0; n < 3; n++) {
		give(page + 4094, 200 + n);
		number("over the end", over());
		page[4096 + 1] = 5;
		number("second page", over());
	}
	/* By the kernel. */
	int pair[2];
	call(PIPE, pair, 0, 0);
	u8 code[6];
	for (int n = 0; n < 3; n++) {
		give(code, 300 + n);
		call(WRITE, pair[1], code, 6);
		number("read", call(READ, pair[0], page, 6));
		number("by the kernel", first());
	}
	/* From a page that may be written, to nowhere and to that page: mov eax, N; syscall; ret. */
	typedef long entry(long, long, long);
	u8 *calling = page + 2048;
	static const u8 enter[] = {0xb8, 0, 0, 0, 0, 0x0f, 0x05, 0xc3};
	memcpy(calling, enter, sizeof enter);
	*(int *)(calling + 1) = ACCESS;
	number("from such a page", ((entry *)calling)(1, 0, 0));
	*(int *)(calling + 1) = READ;
	call(WRITE, pair[1], "six by", 6);
	number("to its own page", ((entry *)calling)(pair[0], (long)calling + 64, 6));
	number("what came", calling[64] + calling[69]);
	/* The next instruction, in the same block: movb $8, 1(next); next: mov $7, al. */
	static const u8 self[] = {0x31, 0xc0, 0xc6, 0x05, 1, 0, 0, 0, 8, 0xb0, 7, 0xc3};
	memcpy(page + 1024, self, sizeof self);
	number("itself", ((function *)(page + 1024))());
	/* By a change of rights, and a write that leaves no rights to execute. */
	give(page + 8192, 400);
	function *third = (function *)(page + 8192);
	number("third page", third());
	call(MPROTECT, page + 8192, 4096, 3);
	give(page + 8192, 401);
	call(MPROTECT, page + 8192, 4096, 5);
	number("after a change", third());
	call(MPROTECT, page + 8192, 4096, 7);
	give(page + 8192, 402);
	number("after another", third());
	/* Moved. */
	u8 *there = (u8 *)call6(25, (long)page, 4096, 8192, 1, 0, 0);
	give(there, 500);
	number("moved", ((function *)there)());
	give(there, 501);
	number("moved and written", ((function *)there)());
	/* Emptied: add [rax], al. */
	call(28, page + 8192, 4096, 4);
	number("emptied", page[8192]);
	/* A loop that counts on the page of its own code: data beside code. */
	static const u8 loop[] = {
		0x31, 0xc0,                         /* xor eax, eax */
		0xff, 0x05, 0xf8, 0, 0, 0,          /* inc dword [rip + 0xf8] */
		0xff, 0xc0,                         /* inc eax */
		0x83, 0xf8, 100,                    /* cmp eax, 100 */
		0x75, 0xf3,                         /* jne */
		0x8b, 0x05, 0xeb, 0, 0, 0,          /* mov eax, [rip + 0xeb] */
		0xc3,
	};
	u8 *beside = page + 3 * 4096;
	memcpy(beside, loop, sizeof loop);
	number("beside", ((function *)beside)());
	/* A store to a page of code, behind as many instructions as are read at once. Behind it comes
	   code on a page that nothing has executed before, and that is written afterwards. */
	static const u8 tail[] = {
		0x89, 0x07,                         /* mov [rdi], eax */
		0xff, 0xce, 0x75, 0xfc,             /* dec esi; jne the dec */
		0xe9,                               /* jmp */
	};
	enum { HEAD = 297 };
	u8 *far = (u8 *)call6(MMAP, 0, 3 * 4096, 7, 0x22, -1, 0);
	int (*both)(u8 *, int) = (int (*)(u8 *, int))far;
	memset(far, 0x90, HEAD);
	memcpy(far + HEAD, tail, sizeof tail);
	*(int *)(far + HEAD + sizeof tail) = 4096 - (HEAD + sizeof tail + 4);
	give(far + 4096, 600);
	give(far + 8192, 700);
	number("watched", ((function *)(far + 8192))());
	number("behind a store", both(far + 8192 + 64, 2));
	give(far + 4096, 601);
	number("written behind", both(far + 8192 + 64, 2));
	leave(0);
}
