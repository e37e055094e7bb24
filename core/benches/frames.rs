//! Reading and writing single frames, beside the least that it takes and beside a general MessagePack library.
#![allow(missing_docs, unused_crate_dependencies, reason = "a bench")]

mod common;

use bytes::BytesMut;
use common::{TOPIC, message_frame, minimal, text};
use divan::{Bencher, black_box};
use nolag_core::wire::{ClientFrame, Publish, RawValue, ServerFrame};

const SIZES: [usize; 3] = [64, 300, 4096];

fn main() {
    divan::main();
}

mod decode_message {
    use super::*;

    #[divan::bench(args = SIZES)]
    fn by_hand(bencher: Bencher<'_, '_>, size: usize) {
        let frame = message_frame(TOPIC, size);
        bencher.bench(|| minimal::decode(black_box(&frame)).is_some());
    }

    #[divan::bench(args = SIZES)]
    fn nolag(bencher: Bencher<'_, '_>, size: usize) {
        let frame = message_frame(TOPIC, size);
        bencher.bench(|| ServerFrame::decode(black_box(&frame)).is_ok());
    }

    #[divan::bench(args = SIZES)]
    fn rmpv(bencher: Bencher<'_, '_>, size: usize) {
        let frame = message_frame(TOPIC, size);
        bencher.bench(|| ::rmpv::decode::read_value_ref(&mut black_box(&*frame)).is_ok());
    }
}

mod encode_publish {
    use super::*;

    #[divan::bench(args = SIZES)]
    fn by_hand(bencher: Bencher<'_, '_>, size: usize) {
        let (data, mut out) = (text(size), BytesMut::with_capacity(8192));
        bencher.bench_local(|| {
            minimal::encode_publish(&mut out, black_box(TOPIC), black_box(&data), Some("1f"))
        });
    }

    #[divan::bench(args = SIZES)]
    fn nolag(bencher: Bencher<'_, '_>, size: usize) {
        let (data, mut out) = (text(size), BytesMut::with_capacity(8192));
        bencher.bench_local(|| {
            out.clear();
            let data = RawValue::parse(black_box(&data)).expect("one value");
            ClientFrame::Publish(Publish { msg_ref: Some("1f"), ..Publish::new(black_box(TOPIC), data) })
                .encode(&mut out);
        });
    }

    #[divan::bench(args = SIZES)]
    fn rmpv(bencher: Bencher<'_, '_>, size: usize) {
        let (data, mut out) = ("x".repeat(size), Vec::with_capacity(8192));
        bencher.bench_local(|| {
            out.clear();
            let fields =
                [("type", "publish"), ("topic", black_box(TOPIC)), ("data", &data), ("msgRef", "1f")];
            let map = fields.map(|(key, value)| (::rmpv::ValueRef::from(key), ::rmpv::ValueRef::from(value)));
            ::rmpv::encode::write_value_ref(&mut out, &::rmpv::ValueRef::Map(map.into())).is_ok()
        });
    }
}
