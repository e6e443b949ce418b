//! Reads messages as their schema says.
//!
//! What serde derives differs from the schema that schemars derives from the same type. It takes an array of the fields'
//! values for a struct, `{"cpu": null}` for the word `"cpu"`, and the second of two equal keys of a map. And it refuses
//! 4.0 as an integer, which it is by JSON Schema, and as which some languages write 4.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Unexpected, Visitor};

/// A `T` that is written as an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = T;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }

        deserializer.deserialize_map(Fields(PhantomData)).map(Object)
    }
}

/// An object.
pub(crate) fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Object::deserialize(deserializer).map(|object| object.0)
}

/// An object or null.
pub(crate) fn optional_object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Option::<Object<T>>::deserialize(deserializer).map(|object| object.map(|object| object.0))
}

/// An array of objects.
pub(crate) fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    Vec::<Object<T>>::deserialize(deserializer)
        .map(|objects| objects.into_iter().map(|object| object.0).collect())
}

/// One of the words that `T` is written as.
pub(crate) fn word<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct Word<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Word<T> {
        type Value = T;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a string")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            T::deserialize(StrDeserializer::new(text))
        }
    }

    deserializer.deserialize_str(Word(PhantomData))
}

/// A number without a fraction, however it is written.
#[derive(Clone, Copy)]
struct Integer<T>(T);

impl<'de, T: TryFrom<i128>> Deserialize<'de> for Integer<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Digits<T>(PhantomData<T>);

        impl<T: TryFrom<i128>> Digits<T> {
            fn fit<E: Error>(self, value: i128, written: Unexpected<'_>) -> Result<T, E> {
                T::try_from(value).map_err(|_| E::invalid_value(written, &self))
            }
        }

        impl<T: TryFrom<i128>> Visitor<'_> for Digits<T> {
            type Value = T;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(std::any::type_name::<T>())
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<T, E> {
                self.fit(value.into(), Unexpected::Unsigned(value))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<T, E> {
                self.fit(value.into(), Unexpected::Signed(value))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<T, E> {
                if value.fract() == 0.0 {
                    // Exact for every value that fits an integer of 64 bits; larger ones stay too large.
                    self.fit(value as i128, Unexpected::Float(value))
                } else {
                    Err(E::invalid_type(Unexpected::Float(value), &self))
                }
            }
        }

        deserializer.deserialize_any(Digits(PhantomData)).map(Integer)
    }
}

/// An integer.
pub(crate) fn integer<'de, D: Deserializer<'de>, T: TryFrom<i128>>(deserializer: D) -> Result<T, D::Error> {
    Integer::deserialize(deserializer).map(|integer| integer.0)
}

/// An integer or null.
pub(crate) fn optional_integer<'de, D: Deserializer<'de>, T: TryFrom<i128>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Option::<Integer<T>>::deserialize(deserializer).map(|integer| integer.map(|integer| integer.0))
}

/// Three integers.
pub(crate) fn three_integers<'de, D: Deserializer<'de>, T: TryFrom<i128>>(
    deserializer: D,
) -> Result<[T; 3], D::Error> {
    <[Integer<T>; 3]>::deserialize(deserializer).map(|integers| integers.map(|integer| integer.0))
}

/// A map whose keys are all different.
pub(crate) fn unique_keys<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    struct Entries;

    impl<'de> Visitor<'de> for Entries {
        type Value = BTreeMap<String, String>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an object of strings")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut entries = BTreeMap::new();
            while let Some((key, value)) = map.next_entry::<String, String>()? {
                if entries.contains_key(&key) {
                    return Err(A::Error::custom(format_args!("duplicate field `{key}`")));
                }
                entries.insert(key, value);
            }
            Ok(entries)
        }
    }

    deserializer.deserialize_map(Entries)
}
