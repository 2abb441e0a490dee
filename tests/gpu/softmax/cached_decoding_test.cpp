// Decoding over a cache of which only the device knows how full it is, against the CPU in Float64.
#include <cmath>

#include "core/softmax/softmax_attention.hpp"
#include "core/tensor/random.hpp"
#include "gpu/base/stream.hpp"
#include "gpu/softmax/decode.hpp"
#include "gpu/tensor/tensor.hpp"
#include "tests/gpu/device.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::test;
using testing::message_of;

namespace {

struct Case {
    Index batch, heads, group, room, d, dv;
};

Tensor normal(const Shape& shape, std::uint64_t stream, DType type) {
    Tensor x(DType::f64, shape);
    random::normals(11, stream, x.data<double>(), x.size());
    return x.to(type);
}

// The first n rows of every head of x [batch, heads, room, width], in Float64.
Tensor first_rows(const Tensor& x, Index n) {
    const Shape& s = x.shape();
    Tensor out(DType::f64, {s[0], s[1], n, s[3]});
    for (Index h = 0; h < s[0] * s[1]; ++h)
        for (Index i = 0; i < n * s[3]; ++i) out.set(h * n * s[3] + i, x.get(h * s[2] * s[3] + i));
    return out;
}

// k and v behind the first n rows of every head become NaN.
void spoil(Tensor& x, Index n) {
    const Shape& s = x.shape();
    for (Index h = 0; h < s[0] * s[1]; ++h)
        for (Index i = n * s[3]; i < s[2] * s[3]; ++i) x.set(h * s[2] * s[3] + i, NAN);
}

double relative(const Tensor& a, const Tensor& b) {
    double off = 0, all = 0;
    for (Index i = 0; i < b.size(); ++i) off += std::pow(a.get(i) - b.get(i), 2), all += std::pow(b.get(i), 2);
    return std::sqrt(off / all);
}

}  // namespace

TEST_CASE("decoding over a cache sees the keys up to its length on the device alone", "[gpu][softmax]") {
    if (!on_gpu()) return;
    for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
        for (const Case& c :
             {Case{1, 2, 1, 700, 64, 64}, Case{2, 3, 2, 300, 128, 128}, Case{1, 2, 3, 1500, 64, 64},
              Case{1, 8, 4, 2048, 128, 128}, Case{1, 1, 8, 900, 256, 256}, Case{2, 1, 5, 600, 40, 72}}) {
            const Tensor q = normal({c.batch, c.heads * c.group, 1, c.d}, 0, type);
            for (const Index length : {Index(0), Index(1), Index(77), c.room / 2, c.room - 1}) {
                INFO(name(type) << ", " << c.heads << " heads, group " << c.group << ", d " << c.d << ", " << length
                                << " keys before in a cache for " << c.room);
                Tensor k = normal({c.batch, c.heads, c.room, c.d}, 1, type),
                       v = normal({c.batch, c.heads, c.room, c.dv}, 2, type);
                spoil(k, length + 1), spoil(v, length + 1);
                const gpu::Tensor dq(q), dk(k), dv(v), o(type, {c.batch, c.heads * c.group, 1, c.dv});
                gpu::SoftmaxArgs a;
                a.q = dq.data(), a.k = dk.data(), a.v = dv.data(), a.o = o.data(), a.type = dq.type();
                a.batch = c.batch, a.heads = c.heads, a.group = static_cast<int>(c.group), a.N = 1, a.M = c.room;
                a.d = static_cast<int>(c.d), a.dv = static_cast<int>(c.dv);
                a.q_stride = gpu::contiguous(c.heads * c.group, 1, a.d);
                a.o_stride = gpu::contiguous(c.heads * c.group, 1, a.dv);
                a.k_stride = gpu::contiguous(c.heads, c.room, a.d), a.v_stride = gpu::contiguous(c.heads, c.room, a.dv);
                a.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(c.d)));
                const gpu::Stream stream;
                const gpu::Buffer room(gpu::cached_decoding_workspace(a)), place(sizeof(std::int32_t));
                const auto filled = static_cast<std::int32_t>(length);
                gpu::check(cudaMemcpy(place.data(), &filled, sizeof filled, cudaMemcpyHostToDevice), "copying");
                a.workspace = {room.data(), room.bytes()};
                settle();
                gpu::cached_decoding(a, place.as<std::int32_t>(), stream);
                stream.wait();
                const Tensor expected =
                    softmax_attention(q.to(DType::f64), first_rows(k, length + 1), first_rows(v, length + 1)).O;
                CHECK(relative(o.cpu(), expected) < (type == DType::f32 ? 3e-6 : type == DType::bf16 ? 4e-3 : 6e-4));
            }
        }
    }
}

TEST_CASE("decoding over a cache takes one query of each head", "[gpu][softmax]") {
    gpu::SoftmaxArgs a;
    a.N = 2, a.M = 10, a.d = a.dv = 64;
    CHECK(message_of([&] { gpu::cached_decoding(a, nullptr, nullptr); }) == "cached_decoding: 2 queries, expected 1");
}
