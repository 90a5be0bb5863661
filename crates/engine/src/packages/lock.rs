//! The `Lock` lists the active revisions of all packages, and what each depends on.
//!
//! Follows Crossplane 2.4.0, `internal/controller/pkg/revision/dependency.go`.

use ferroplane_api::LockPackage;

/// The packages of the lock with this one added or updated. None if nothing changes.
pub fn join_lock(packages: &[LockPackage], own: &LockPackage) -> Option<Vec<LockPackage>> {
    let is_own = |package: &&LockPackage| package.name == own.name;
    let (mut same, others): (Vec<&LockPackage>, Vec<&LockPackage>) = packages.iter().partition(is_own);
    // An entry that another writer made in the old form keeps it.
    let says_the_same = |package: &LockPackage| {
        package.source == own.source
            && package.version == own.version
            && package.dependencies == own.dependencies
            && package.package_kind() == own.package_kind()
    };
    if let (Some(present), true) = (same.pop(), same.is_empty())
        && says_the_same(present)
    {
        return None;
    }
    // In its old position: entries are in the order in which they were added.
    let place = packages.iter().position(|package| package.name == own.name);
    let mut packages: Vec<LockPackage> = others.into_iter().cloned().collect();
    packages.insert(place.unwrap_or(packages.len()).min(packages.len()), own.clone());
    Some(packages)
}

/// The packages of the lock without this revision. None if it is not among them.
pub fn leave_lock(packages: &[LockPackage], revision: &str) -> Option<Vec<LockPackage>> {
    let left: Vec<LockPackage> =
        packages.iter().filter(|package| package.name != revision).cloned().collect();
    (left.len() != packages.len()).then_some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str) -> LockPackage {
        LockPackage {
            name: name.to_owned(),
            source: format!("registry.example.org/{name}"),
            version: version.to_owned(),
            ..LockPackage::default()
        }
    }

    #[test]
    fn revision_is_in_the_lock_once_with_its_version() {
        let (a, b) = (package("a", "v1"), package("b", "v1"));
        assert_eq!(join_lock(&[], &a), Some(vec![a.clone()]));
        assert_eq!(join_lock(&[a.clone(), b.clone()], &a), None);
        let newer = package("a", "v2");
        assert_eq!(join_lock(&[a.clone(), b.clone()], &newer), Some(vec![newer.clone(), b.clone()]));
        assert_eq!(join_lock(&[a.clone(), b.clone(), a.clone()], &a), Some(vec![a.clone(), b.clone()]));
        assert_eq!(leave_lock(&[a.clone(), b.clone()], "a"), Some(vec![b.clone()]));
        assert_eq!(leave_lock(&[b], "a"), None);
    }
}
