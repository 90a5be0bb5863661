//! What an actor can make the control plane do by packages that it installs.

use ferroplane_api::keys;

use super::actor::{Actor, Work};
use super::edges::Finder;
use super::held::WRITES;
use super::reach::Reach;

/// Kinds whose objects bring XRDs and Compositions of their author's choice, and whether programs come with them.
const PACKAGES: [(&str, &str, bool); 4] = [
    ("configurations", "a Configuration", false),
    ("configurationrevisions", "a ConfigurationRevision", false),
    ("providers", "a Provider", true),
    ("providerrevisions", "a ProviderRevision", true),
];

impl Finder<'_> {
    /// The author of a package defines kinds and how they are composed, and a Provider comes with a program.
    pub(super) fn install_packages(&mut self) {
        for (plural, title, has_program) in PACKAGES {
            if self.facts.input.kind_of(keys::PKG, plural).is_none() {
                continue;
            }
            for held in self.held_any(&WRITES, keys::PKG, plural, false) {
                // Whether packages are installed, and from which registries, is not known from objects.
                let does = format!(
                    "installs {title} with a cluster-scoped kind and its Composition, once a user creates an object of it"
                );
                let to = Actor::Composer { reach: Reach::Cluster, work: Work::Anything };
                self.add_if(to, does, &held, false);
                if has_program {
                    self.add_if(
                        Actor::Provider,
                        format!("installs {title} with a program of their own"),
                        &held,
                        false,
                    );
                }
            }
        }
    }
}
