//! Defines an attribute of structs that serde writes.

use proc_macro::TokenStream;
use quote::ToTokens;
use syn::{Data, DeriveInput, Type, parse_macro_input, parse_quote};

/// The types of fields that can be empty, and the functions that check this.
const EMPTY: [(&str, &str); 3] =
    [("BTreeMap", "BTreeMap::is_empty"), ("Option", "Option::is_none"), ("Vec", "Vec::is_empty")];

/// Makes serde read and write a struct as the Kubernetes API has it: the names of fields are in camelCase, an absent
/// field has its default, and each field that is `None`, an empty list or an empty map is left out, as by Go's
/// `omitempty`. Must be placed before the `derive` of `Serialize`, which sees `rename_all`, `default` and the fields
/// with `skip_serializing_if`.
#[proc_macro_attribute]
pub fn kubernetes_json(_: TokenStream, item: TokenStream) -> TokenStream {
    let mut item = parse_macro_input!(item as DeriveInput);
    item.attrs.push(parse_quote!(#[serde(rename_all = "camelCase", default)]));
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
