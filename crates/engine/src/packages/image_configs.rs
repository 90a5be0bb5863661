//! Selects the `ImageConfig` of an image.
//!
//! Follows Crossplane 2.4.0, `internal/xpkg/config.go`: of those that say something for the purpose, the one with the longest
//! matching prefix.

use ferroplane_api::ImageConfig;

/// The purpose for which an `ImageConfig` is selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImagePurpose {
    Rewrite,
    PullSecret,
    Verify,
    Runtime,
}

impl ImagePurpose {
    /// The reason in the status of a package that used the config.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Rewrite => "RewriteImage",
            Self::PullSecret => "SetImagePullSecret",
            Self::Verify => "VerifyImage",
            Self::Runtime => "ConfigureRuntime",
        }
    }

    fn is_served_by(self, config: &ImageConfig) -> bool {
        match self {
            Self::Rewrite => config.rewrite_image.is_some(),
            Self::PullSecret => config.pull_secret().is_some(),
            Self::Verify => config.verification.as_ref().is_some_and(|verification| !verification.is_null()),
            Self::Runtime => config.runtime.as_ref().is_some_and(|runtime| runtime.config_ref.is_some()),
        }
    }
}

/// A config that was used, as the status of a package lists it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AppliedImageConfig {
    pub name: String,
    pub purpose: ImagePurpose,
}

/// An image that is fetched from another location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RewrittenImage {
    pub image: String,
    pub by: AppliedImageConfig,
}

/// The config for this image and purpose. Of two that match equally well, the first is used.
pub fn select_image_config<'a>(
    configs: &'a [ImageConfig],
    image: &str,
    purpose: ImagePurpose,
) -> Option<&'a ImageConfig> {
    let mut best: Option<(usize, &ImageConfig)> = None;
    for config in configs.iter().filter(|config| purpose.is_served_by(config)) {
        let length = longest_prefix(config, image);
        if length > best.map_or(0, |(length, _)| length) {
            best = Some((length, config));
        }
    }
    best.map(|(_, config)| config)
}

/// The location of an image, if a config rewrites it.
pub fn rewrite_image(configs: &[ImageConfig], image: &str) -> Option<RewrittenImage> {
    let config = select_image_config(configs, image, ImagePurpose::Rewrite)?;
    let rest = &image[longest_prefix(config, image)..];
    let prefix = &config.rewrite_image.as_ref()?.prefix;
    let by = AppliedImageConfig { name: config.name.clone(), purpose: ImagePurpose::Rewrite };
    Some(RewrittenImage { image: format!("{prefix}{rest}"), by })
}

fn longest_prefix(config: &ImageConfig, image: &str) -> usize {
    let prefixes = config.match_images.iter().map(|matching| &matching.prefix);
    prefixes.filter(|prefix| image.starts_with(*prefix)).map(String::len).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn config(name: &str, spec: &Value) -> ImageConfig {
        let Value::Object(object) = json!({"metadata": {"name": name}, "spec": spec}) else { unreachable!() };
        ImageConfig::of(&object)
    }

    #[test]
    fn longest_prefix_that_serves_the_purpose_decides() {
        let secret = |name: &str| json!({"authentication": {"pullSecretRef": {"name": name}}});
        let configs = [
            config(
                "all",
                &json!({"matchImages": [{"prefix": "registry.example.org/"}], "registry": secret("s1")}),
            ),
            config(
                "org",
                &json!({"matchImages": [{"prefix": "x"}, {"prefix": "registry.example.org/org/"}], "rewriteImage": {"prefix": "mirror.example.org/m/"}}),
            ),
            config(
                "twin",
                &json!({"matchImages": [{"prefix": "registry.example.org/"}], "registry": secret("s2")}),
            ),
            config("none", &json!({"matchImages": [{"prefix": ""}], "verification": {"provider": "Cosign"}})),
        ];
        let image = "registry.example.org/org/function:v1";
        let found = |purpose| select_image_config(&configs, image, purpose).map(|config| &*config.name);
        assert_eq!(found(ImagePurpose::PullSecret), Some("all"));
        assert_eq!(found(ImagePurpose::Rewrite), Some("org"));
        assert_eq!(found(ImagePurpose::Verify), None, "an empty prefix matches nothing");
        assert_eq!(found(ImagePurpose::Runtime), None);
        let rewritten = rewrite_image(&configs, image).unwrap();
        assert_eq!((&*rewritten.image, &*rewritten.by.name), ("mirror.example.org/m/function:v1", "org"));
        assert_eq!(rewrite_image(&configs, "elsewhere.example.org/a:v1"), None);
    }
}
