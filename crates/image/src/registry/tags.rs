//! The tags of a repository.

use ferroplane_api::image::Reference;
use http::header::LINK;
use serde::Deserialize;

use super::exchange::{Ask, Repository};
use super::{Error, Failure, Registry};

/// How large a page may be, how many there may be, and how many tags altogether.
const MAX_PAGE_BYTES: u64 = 4 << 20;
const MAX_PAGES: usize = 100;
const MAX_TAGS: usize = 100_000;

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    tags: Option<Vec<String>>,
}

impl Registry {
    /// The tags of the repository that a reference is in, as the registry orders them.
    pub async fn tags(&self, reference: &Reference) -> Result<Vec<String>, Error> {
        let name = format!("{}/{}", reference.registry(), reference.repository());
        self.in_time(self.list_tags(reference)).await.map_err(Error::new("list the tags of", &name))
    }

    async fn list_tags(&self, reference: &Reference) -> Result<Vec<String>, Failure> {
        let repository = self.pulling(reference).await?;
        let mut next = Some(repository.uri("tags/list?n=1000")?);
        let mut tags = Vec::new();
        for _ in 0..MAX_PAGES {
            let Some(uri) = next.take() else { break };
            let ask = Ask::get(uri, "the request for tags");
            let (page, following) = self.options().retries.run(|| self.page(&repository, &ask)).await?;
            tags.extend(page);
            if tags.len() > MAX_TAGS {
                let (what, size, limit) = ("a list of tags", tags.len() as u64, MAX_TAGS as u64);
                return Err(Failure::TooLarge { what, size, limit });
            }
            next = following;
        }
        Ok(tags)
    }

    async fn page(
        &self,
        repository: &Repository,
        ask: &Ask,
    ) -> Result<(Vec<String>, Option<http::Uri>), Failure> {
        let answer = self.ask(repository, ask).await?;
        let host = answer.host.clone();
        let following = answer.header(LINK).and_then(next_page).map(str::to_owned);
        let following =
            following.map(|link| self.redirected(&repository.endpoint, &ask.uri, &link)).transpose()?;
        let content = answer.document("a list of tags", MAX_PAGE_BYTES).await?;
        let page: Page = serde_json::from_slice(&content)
            .map_err(|_| Failure::Protocol { host, what: "the list of tags" })?;
        Ok((page.tags.unwrap_or_default(), following))
    }
}

/// The target of `<…>; rel="next"`.
fn next_page(link: &str) -> Option<&str> {
    let (target, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
    parameters.contains("next").then_some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_page_is_found() {
        assert_eq!(next_page(r#"</v2/a/tags/list?n=1>; rel="next""#), Some("/v2/a/tags/list?n=1"));
        assert_eq!(next_page("</v2>; rel=prev"), None);
        assert_eq!(next_page("garbage"), None);
    }
}
