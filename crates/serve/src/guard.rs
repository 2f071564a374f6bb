//! Access control: a random token, the host name of the request, and the content security policy.

use crate::page;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

/// Length of a token in bytes.
const TOKEN_BYTES: usize = 16;

/// Generate a random token as text for a URL.
pub(crate) fn token() -> Result<String, getrandom::Error> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Compare two tokens in constant time.
pub(crate) fn are_equal(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// Check if the `Host` header of a request names this machine, or one of `also`. A page of another site whose name
/// resolves to this address (DNS rebinding) sends its own name. Proxies of notebooks and editors, which know the token,
/// send the names in `also`.
pub(crate) fn is_own_host(headers: &HeaderMap, also: &[String]) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    ["127.0.0.1", "localhost", "::1"].contains(&name) || also.iter().any(|known| known == name)
}

/// Security headers of each response. The policy allows only the page's own script and style, and no requests to other
/// origins. Frames are allowed only in notebooks of this machine; content types are not guessed.
pub(crate) fn headers() -> [(HeaderName, HeaderValue); 5] {
    let policy =
        format!("{}; connect-src 'self'; frame-ancestors 'self' http://127.0.0.1:* http://localhost:*", page::POLICY);
    // The policy is text from our own build.
    let policy = HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'"));
    [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        let is_accepted = |host: &'static str| {
            let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]);
            is_own_host(&headers, &["lab.example".to_owned()])
        };
        assert!(
            is_accepted("127.0.0.1:8080")
                && is_accepted("localhost:1")
                && is_accepted("[::1]:80")
                && is_accepted("localhost")
        );
        assert!(is_accepted("lab.example:443"));
        assert!(!is_accepted("evil.example:8080") && !is_accepted("127.0.0.1.evil.example") && !is_accepted(""));
        assert!(!is_own_host(&HeaderMap::new(), &[]));
    }

    #[test]
    fn tokens() {
        let (a, b) = (token().expect("random"), token().expect("random"));
        assert!(a.len() == 32 && a != b);
        assert!(are_equal(&a, &a.clone()) && !are_equal(&a, &b) && !are_equal(&a, ""));
    }
}
