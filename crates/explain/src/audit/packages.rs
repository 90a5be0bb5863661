//! What an actor can make the control plane do by packages that it installs, and by what decides which image they have and how it runs.

use std::collections::BTreeSet;

use ferroplane_api::keys;

use super::actor::{Actor, Work};
use super::edges::Finder;
use super::held::WRITES;
use super::reach::Reach;
use super::subject::Subject;
use crate::snapshot::Home;

/// Kinds whose objects bring XRDs and Compositions of their author's choice, and whether programs come with them.
const PACKAGES: [(&str, &str, bool); 4] = [
    ("configurations", "a Configuration", false),
    ("configurationrevisions", "a ConfigurationRevision", false),
    ("providers", "a Provider", true),
    ("providerrevisions", "a ProviderRevision", true),
];
const IMAGE_CONFIGS: &str = "imageconfigs";
const RUNTIME_CONFIGS: &str = "deploymentruntimeconfigs";

impl Finder<'_> {
    /// The ways by packages.
    pub(super) fn use_packages(&mut self) {
        self.install_packages();
        self.replace_images();
        self.configure_pods();
    }

    /// The author of a package defines kinds and how they are composed, and a Provider comes with a program.
    fn install_packages(&mut self) {
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

    /// The author of an ImageConfig says which image takes the place of that of a package, and whether its signature is verified.
    fn replace_images(&mut self) {
        if self.facts.input.kind_of(keys::PKG, IMAGE_CONFIGS).is_none() {
            return;
        }
        for held in self.held_any(&WRITES, keys::PKG, IMAGE_CONFIGS, false) {
            // An image is pulled when a package is installed, upgraded or read again.
            for (to, package) in [
                (Actor::Composer { reach: Reach::Cluster, work: Work::Anything }, "package"),
                (Actor::Provider, "Provider"),
            ] {
                let does = format!(
                    "writes an ImageConfig that replaces the image of a {package}, once one is installed or upgraded"
                );
                self.add_if(to, does, &held, false);
            }
        }
    }

    /// The author of a DeploymentRuntimeConfig chooses the image and the service account of pods beside the control plane.
    fn configure_pods(&mut self) {
        // `ferroplane up` runs no pods.
        let is_here = self.facts.input.kind_of(keys::PKG, RUNTIME_CONFIGS).is_some();
        if !is_here || self.facts.input.home == Home::Embedded {
            return;
        }
        let namespace = |subject: &Subject| match subject {
            Subject::ServiceAccount { namespace, .. } => Some(namespace.clone()),
            _ => None,
        };
        let namespaces: BTreeSet<_> = self.facts.composers.iter().filter_map(namespace).collect();
        for held in self.held_any(&WRITES, keys::PKG, RUNTIME_CONFIGS, false) {
            for namespace in &namespaces {
                let does = format!(
                    "writes a DeploymentRuntimeConfig for the pods of packages in namespace {namespace}"
                );
                self.add_if(Actor::Pod(Reach::namespace(namespace)), does, &held, false);
            }
            let does = "writes a DeploymentRuntimeConfig for the program of a Provider".to_owned();
            self.add_if(Actor::Provider, does, &held, false);
        }
    }
}
