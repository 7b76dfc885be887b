//! Kubernetes' rules for the names of objects.

/// Kubernetes' limit, in characters, for the values of labels, the names of Services and many others.
pub const LONGEST_LABEL: usize = 63;
/// Kubernetes' limit for most names, in characters.
pub const LONGEST_NAME: usize = 253;

/// Whether `name` is a DNS-1123 subdomain, as Kubernetes requires for the names of most objects.
pub fn is_object_name(name: &str) -> bool {
    name.len() <= LONGEST_NAME && name.split('.').all(is_segment)
}

/// Whether `name` can be one part of a DNS-1123 subdomain, between two dots.
pub fn is_segment(name: &str) -> bool {
    let is_alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.starts_with(is_alphanumeric)
        && name.ends_with(is_alphanumeric)
        && name.chars().all(|c| is_alphanumeric(c) || c == '-')
}
