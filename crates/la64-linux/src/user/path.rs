//! Path lookup with a sysroot: absolute paths are tried inside it first, following its own symbolic
//! links; what it lacks comes from the host.

use littoral_base::mutant;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// The lookup rule.
#[derive(Debug)]
pub(super) struct Paths {
    sysroot: Option<PathBuf>,
}

/// Never looked up in the sysroot: the kernel's own trees, and where users keep their files.
const HOST_ONLY: [&str; 7] = ["/proc", "/dev", "/sys", "/tmp", "/run", "/home", "/root"];

const LINKS_MAX: usize = 40;

impl Paths {
    pub(super) fn new(sysroot: Option<PathBuf>) -> Paths {
        let sysroot = sysroot.map(|s| std::fs::canonicalize(&s).unwrap_or(s));
        Paths { sysroot }
    }

    /// The host path of a guest path, its last component followed.
    pub(super) fn resolve(&self, path: &Path) -> PathBuf {
        self.look(path, true).unwrap_or_else(|| path.into())
    }

    /// As `resolve`, but a symbolic link in the last place is the result itself.
    pub(super) fn resolve_link(&self, path: &Path) -> PathBuf {
        self.look(path, false).unwrap_or_else(|| path.into())
    }

    fn look(&self, path: &Path, follow: bool) -> Option<PathBuf> {
        let root = self.sysroot.as_ref().filter(|_| path.is_absolute())?;
        if path.starts_with(root) || HOST_ONLY.iter().any(|top| path.starts_with(top)) {
            return None;
        }
        // A slash behind the last component has it followed, and asks for a directory.
        let bytes = path.as_os_str().as_bytes();
        let is_directory = bytes.ends_with(b"/") || bytes.ends_with(b"/.");
        let follow = follow || is_directory && !mutant!("la64_slash_behind_a_link_is_lost");
        let found = walk(root, path, follow);
        // Packages of a merged-/usr system rely on links that only an installation makes.
        let merged = ["/bin", "/sbin", "/lib", "/lib64"].iter().any(|top| path.starts_with(top));
        let found = found.or_else(|| {
            let usr = Path::new("/usr").join(path.strip_prefix("/").ok()?);
            walk(root, &usr, follow).filter(|_| merged)
        });
        found.map(|host| if is_directory { host.join("") } else { host })
    }

    /// The guest path of a file as the kernel shows it in /proc, without symbolic links. It was
    /// found at `host` by `path`, which stands for a file that has no name.
    pub(super) fn real(&self, host: &Path, path: &Path) -> PathBuf {
        let real = std::fs::canonicalize(host).ok().filter(|_| !mutant!("la64_exe_is_a_link"));
        let shown = real.map(|real| match self.guest(&real) {
            guest if self.resolve(&guest) == real => guest,
            // Users keep files there that are not looked up in the sysroot.
            _ => real,
        });
        shown.unwrap_or_else(|| std::path::absolute(path).unwrap_or_else(|_| path.into()))
    }

    /// The guest path of a host path.
    pub(super) fn guest(&self, host: &Path) -> PathBuf {
        match self.sysroot.as_ref().and_then(|root| host.strip_prefix(root).ok()) {
            Some(rest) => Path::new("/").join(rest),
            None => host.into(),
        }
    }
}

/// Walks `path` from `root` as if it were `/`; `None` if something on the way is missing.
fn walk(root: &Path, path: &Path, follow: bool) -> Option<PathBuf> {
    let mut todo: Vec<PathBuf> = parts(path);
    let mut here = root.to_path_buf();
    let mut links = 0;
    while let Some(part) = todo.pop() {
        if part.as_os_str() == ".." {
            if here != root {
                here.pop();
            }
            continue;
        }
        let next = here.join(&part);
        let kind = std::fs::symlink_metadata(&next).ok()?.file_type();
        if !kind.is_symlink() || todo.is_empty() && !follow {
            here = next;
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            return None;
        }
        let target = std::fs::read_link(&next).ok()?;
        if target.is_absolute() {
            here = root.to_path_buf();
        }
        todo.extend(parts(&target));
    }
    Some(here)
}

/// Named components in reverse.
fn parts(path: &Path) -> Vec<PathBuf> {
    let named = |c: &Component<'_>| matches!(c, Component::Normal(_) | Component::ParentDir);
    let mut list: Vec<PathBuf> =
        path.components().filter(named).map(|c| PathBuf::from(c.as_os_str())).collect();
    list.reverse();
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_stay_inside_the_sysroot() {
        let dir = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(dir.path()).unwrap();
        std::fs::create_dir_all(root.join("usr/lib64")).unwrap();
        std::fs::write(root.join("usr/lib64/ld.so"), "x").unwrap();
        symlink("/usr/lib64/ld.so", root.join("usr/absolute")).unwrap();
        symlink("/loop", root.join("loop")).unwrap();
        let paths = Paths::new(Some(root.clone()));
        let real = root.join("usr/lib64/ld.so");
        assert_eq!(paths.resolve(Path::new("/usr/absolute")), real);
        assert_eq!(paths.resolve(Path::new("/lib64/ld.so")), real);
        assert_eq!(paths.resolve(Path::new("/usr/../../../usr/absolute")), real);
        assert_eq!(paths.resolve_link(Path::new("/usr/absolute")), root.join("usr/absolute"));
        symlink("usr/lib64", root.join("folder")).unwrap();
        let mut folder = root.join("usr/lib64").into_os_string();
        folder.push("/");
        for path in ["/folder/", "/folder/.", "/usr/lib64/"] {
            assert_eq!(paths.resolve_link(Path::new(path)).as_os_str(), folder, "{path}");
        }
        assert_eq!(paths.resolve_link(Path::new("/folder")), root.join("folder"));
        std::fs::create_dir(root.join("tmp")).unwrap();
        assert_eq!(paths.resolve(Path::new("/tmp")), Path::new("/tmp"));
        assert_eq!(paths.resolve(Path::new("/loop")), Path::new("/loop"));
        assert_eq!(paths.resolve(Path::new("/etc/hostname")), Path::new("/etc/hostname"));
        assert_eq!(paths.resolve(Path::new("relative")), Path::new("relative"));
        assert_eq!(paths.guest(&real), Path::new("/usr/lib64/ld.so"));
        let shown = |host: &str, path: &str| paths.real(&root.join(host), Path::new(path));
        assert_eq!(shown("usr/lib64/ld.so", "/usr/absolute"), Path::new("/usr/lib64/ld.so"));
        std::fs::write(root.join("tmp/program"), "x").unwrap();
        assert_eq!(shown("tmp/program", "../program"), root.join("tmp/program"));
        assert_eq!(shown("nothing", "/nothing"), Path::new("/nothing"));
    }
}
