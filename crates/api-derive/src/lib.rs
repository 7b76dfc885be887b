//! Defines an attribute of structs that serde writes.

use proc_macro::TokenStream;
use quote::ToTokens;
use syn::{Data, DeriveInput, Type, parse_macro_input, parse_quote};

/// The types of fields that may have nothing, and the functions that find it out.
const EMPTY: [(&str, &str); 3] =
    [("BTreeMap", "BTreeMap::is_empty"), ("Option", "Option::is_none"), ("Vec", "Vec::is_empty")];

/// Makes serde leave out each field of a struct that is none, an empty list or an empty map, as Go's `omitempty` does. Stands
/// before the `derive` of `Serialize`, which sees the fields with `skip_serializing_if`.
#[proc_macro_attribute]
pub fn omits_empty(_: TokenStream, item: TokenStream) -> TokenStream {
    let mut item = parse_macro_input!(item as DeriveInput);
    if let Data::Struct(of) = &mut item.data {
        for field in &mut of.fields {
            let Type::Path(kind) = &field.ty else { continue };
            let Some(name) = kind.path.segments.last() else { continue };
            if let Some((_, is_empty)) = EMPTY.iter().find(|(known, _)| name.ident == known) {
                field.attrs.push(parse_quote!(#[serde(skip_serializing_if = #is_empty)]));
            }
        }
    }
    item.into_token_stream().into()
}
