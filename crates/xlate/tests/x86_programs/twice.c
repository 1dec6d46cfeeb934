/* Code in memory that is mapped twice, once to be written and once to be executed. */
#include "start.h"

enum { MREMAP = 25, SHMGET = 29, SHMAT, SHMCTL, FTRUNCATE = 77, MEMFD_CREATE = 319 };
enum { LENGTH = 2 * 4096 };
enum { MAY_READ = 1, MAY_WRITE = 2, MAY_EXECUTE = 4 };
typedef int function(void);
static int file;

static void give(u8 *at, int value)
{
	/* mov eax, value; ret */
	at[0] = 0xb8;
	*(int *)(at + 1) = value;
	at[5] = 0xc3;
}

/* Pages of the file from one on, shared. */
static u8 *map(u64 first, int rights)
{
	return (u8 *)call6(MMAP, 0, LENGTH - first * 4096, rights, 1, file, first * 4096);
}

static void written(const char *name, u8 *there, u8 *here, int value)
{
	for (int n = 0; n < 3; n++) {
		give(there, value + n);
		number(name, ((function *)here)());
	}
}

static void program(int argc, char **argv, char **envp, u64 *auxv)
{
	(void)argc, (void)argv, (void)envp, (void)auxv;
	file = call(MEMFD_CREATE, "code", 0, 0);
	number("room", call(FTRUNCATE, file, LENGTH, 0));
	u8 *there = map(0, MAY_READ | MAY_WRITE), *here = map(0, MAY_READ | MAY_EXECUTE);
	written("before", there, here, 100);
	/* Other places in both, and over the end of a page. */
	written("second page", there + 4096 + 64, here + 4096 + 64, 200);
	written("over the end", there + 4094, here + 4094, 300);
	/* A mapping that is made when the code has run, of one page of the two. */
	u8 *later = map(1, MAY_READ | MAY_WRITE);
	written("later", later + 64, here + 4096 + 64, 400);
	written("as before", there + 4096 + 64, here + 4096 + 64, 500);
	/* One that could only be read at first. */
	u8 *read = map(0, MAY_READ);
	number("as it was", ((function *)(here + 4096 + 64))());
	call(MPROTECT, read, LENGTH, MAY_READ | MAY_WRITE);
	written("allowed later", read + 4096 + 64, here + 4096 + 64, 600);
	/* Moved, and mapped once more by a move of nothing. */
	give(there, 700);
	number("as given", ((function *)here)());
	u8 *moved = (u8 *)call6(MREMAP, (long)there, LENGTH, 2 * LENGTH, 1, 0, 0);
	written("moved", moved, here, 710);
	u8 *more = (u8 *)call6(MREMAP, (long)moved, 0, LENGTH, 1, 0, 0);
	written("once more", more, here, 720);
	u8 *runs = (u8 *)call6(MREMAP, (long)here, 0, LENGTH, 1, 0, 0);
	number("in another place", ((function *)runs)());
	written("there", more, runs, 730);
	number("and here", ((function *)here)());
	/* By the kernel. */
	int pair[2];
	u8 code[6];
	call(PIPE, pair, 0, 0);
	for (int n = 0; n < 3; n++) {
		give(code, 800 + n);
		call(WRITE, pair[1], code, 6);
		number("read", call(READ, pair[0], more, 6));
		number("by the kernel", ((function *)here)());
	}
	/* A segment. */
	long id = call(SHMGET, 0, 4096, 0700);
	u8 *attached = (u8 *)call(SHMAT, id, 0, 0);
	u8 *executed = (u8 *)call(SHMAT, id, 0, 0110000);
	call(SHMCTL, id, 0, 0);
	written("segment", attached, executed, 900);
	leave(0);
}
