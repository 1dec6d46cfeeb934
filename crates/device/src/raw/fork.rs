//! Forked children for tests.

/// What `child` answers in a forked child of this process.
pub(crate) fn in_child(child: impl FnOnce() -> i32) -> i32 {
    in_child_beside(child, || ())
}

/// As [`in_child`], while this process does `parent`.
pub(crate) fn in_child_beside(child: impl FnOnce() -> i32, parent: impl FnOnce()) -> i32 {
    // SAFETY: the child calls only `child` and `_exit`; what the tests below run in it takes no
    // lock that another thread of this process could have held at the fork.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(child()),
            pid => {
                parent();
                let mut status = 0;
                assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
                if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -1 }
            }
        }
    }
}

/// Forks a child that does `first`, leaves a child of its own behind that does `orphan`, and ends;
/// returns when it has ended.
pub(crate) fn leaves_an_orphan(first: impl FnOnce(), orphan: impl FnOnce()) {
    let status = in_child(|| {
        first();
        // SAFETY: as in `in_child_beside`.
        unsafe {
            match libc::fork() {
                0 => {
                    orphan();
                    libc::_exit(0)
                }
                pid => i32::from(pid < 0),
            }
        }
    });
    assert_eq!(status, 0, "the child forks");
}
