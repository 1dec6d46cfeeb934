/* Calls that fail, and calls that the kernel's generic table lacks. */
#include "start.h"

static void program(int argc, char **argv, char **envp, u64 *auxv)
{
	(void)argc, (void)argv, (void)envp, (void)auxv;
	number("open", call(OPEN, "/nowhere/at/all", 0, 0));
	number("close", call(CLOSE, 77, 0, 0));
	number("bad address", call(WRITE, 1, 8, 4));
	number("bad path", call(OPEN, 0x7fffffff0000, 0, 0));
	number("no call", call(134, 0, 0, 0));
	number("not a terminal", call(IOCTL, 1, 0x5401, &argc));
	number("not a folder", call(OPEN, "/dev/null", 0200000, 0));
	number("mkdir", call(MKDIR, "folder", 0755, 0));
	number("again", call(MKDIR, "folder", 0755, 0));
	number("access", call(ACCESS, "folder", 7, 0));
	long file = call(OPEN, "folder/file", 0102, 0640);
	number("create", file);
	number("exclusive", call(OPEN, "folder/file", 0302, 0640));
	number("written", call(WRITE, file, "text", 4));
	u64 status[18];
	memset(status, 0xff, sizeof status);
	number("stat", call(STAT, "folder/file", status, 0));
	number("mode", (u32)status[3]);
	number("links", status[2]);
	number("size", status[6]);
	number("block", status[7]);
	number("fstat", call(FSTAT, file, status, 0));
	number("size", status[6]);
	number("lstat", call(LSTAT, "nothing", status, 0));
	number("newfstatat", call6(NEWFSTATAT, -100, (long)"folder", (long)status, 0, 0, 0));
	number("mode", (u32)status[3]);
	number("flags", call(FCNTL, file, 3, 0));
	number("not empty", call(RMDIR, "folder", 0, 0));
	long folder = call(OPEN, "folder", 0200000, 0);
	char entries[1024];
	long found = call(GETDENTS64, folder, entries, sizeof entries);
	for (long at = 0; at < found; at += *(unsigned short *)(entries + at + 16))
		if (same(entries + at + 19, "file"))
			number("an entry", entries[at + 18]);
	number("old getdents", call(LSEEK, folder, 0, 0) == 0 && call(78, folder, entries, 1024) > 0);
	number("dup2", call(DUP2, 1, 20, 0));
	number("through it", call(WRITE, 20, "x\n", 2));
	int pair[2];
	number("pipe", call(PIPE, pair, 0, 0));
	call(WRITE, pair[1], "abc", 3);
	struct { int fd; short events, found; } one = {pair[0], 1, 0};
	number("poll", call(POLL, &one, 1, 0));
	number("events", one.found);
	u64 set[16] = {0};
	set[pair[0] / 64] = 1ul << pair[0] % 64;
	long none[2] = {0, 0};
	number("select", call6(SELECT, 64, (long)set, 0, 0, (long)none, 0));
	long many = call(EPOLL_CREATE1, 0, 0, 0);
	struct __attribute__((packed)) { u32 events; u64 data; } event = {1, 0x123456789a}, got[3];
	number("epoll_ctl", call6(EPOLL_CTL, many, 1, pair[0], (long)&event, 0, 0));
	memset(got, 0, sizeof got);
	number("epoll_wait", call6(EPOLL_WAIT, many, (long)got, 3, 0, 0, 0));
	number("what", got[0].events);
	number("whose", got[0].data);
	long now, clock[2];
	call(228, 0, clock, 0);
	number("time", call(TIME, &now, 0, 0) == now && now - clock[0] < 2);
	number("fs", call(ARCH_PRCTL, 0x1002, 0x5000, 0));
	u64 base = 0;
	number("read", call(ARCH_PRCTL, 0x1003, &base, 0));
	number("base", base);
	number("gs", call(ARCH_PRCTL, 0x1001, &base, 0));
	u64 by_gs;
	__asm__("mov %%gs:0, %0" : "=r"(by_gs));
	number("through gs", by_gs);
	number("no user's", call(ARCH_PRCTL, 0x1002, 1ul << 63, 0));
	number("bad code", call(ARCH_PRCTL, 0x9999, 0, 0));
	number("unlink", call(UNLINK, "folder/file", 0, 0));
	number("rmdir", call(RMDIR, "folder", 0, 0));
	char buffer[64];
	number("readlink", call(READLINK, "folder", buffer, 64));
	number("mmap", call6(MMAP, 0, 0, 3, 0x22, -1, 0));
	long low = call6(MMAP, 0, 8192, 3, 0x62, -1, 0);
	number("low", low > 0 && low < 1l << 31);
	long heap = call(BRK, 0, 0, 0);
	number("brk", call(BRK, heap + 10000, 0, 0) - heap);
	*(u64 *)(heap + 4096) = 1;
	number("mprotect", call(MPROTECT, low, 4096, 1));
	number("to read-only memory", call(READ, pair[0], low, 3));
	number("munmap", call(MUNMAP, low, 8192, 0));
	leave(0);
}
