//! Defines enums each of whose variants has a text.

/// Defines an enum and its `ALL`, `as_str` and `Display`: each variant is declared with its text. Where a line such as
/// `text => String: format!("{text} is no color")` follows the enum, `FromStr` is defined too: the line has the type and
/// the value of the error for a text that no variant has.
#[macro_export]
macro_rules! words {
    (
        $(#[$about:meta])*
        $access:vis enum $kind:ident { $($(#[$note:meta])* $variant:ident = $word:expr),+ $(,)? }
        $($text:ident => $error:ty: $wrong:expr)?
    ) => {
        $(#[$about])*
        $access enum $kind { $($(#[$note])* $variant),+ }

        impl $kind {
            /// Every variant, in the order of declaration.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// Returns the text of the variant.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl ::std::fmt::Display for $kind {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        $(impl ::std::str::FromStr for $kind {
            type Err = $error;

            fn from_str($text: &str) -> Result<Self, $error> {
                Self::ALL.into_iter().find(|known| known.as_str() == $text).ok_or_else(|| $wrong)
            }
        })?
    };
}
