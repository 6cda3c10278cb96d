// The optional module for arrays in a GPU's memory. Arrays are passed as addresses, streams as
// CUDA's handles, which are numbers; the package's cuda.py checks shapes and dtypes before it calls
// these functions. Formats are passed by name, so this module does not need _core.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <optional>
#include <string>

#include "analysis/cuda/error_cuda.h"
#include "analysis/cuda/replay_cuda.h"
#include "bindings/module/dlpack_capsule.h"
#include "bindings/module/guarded.h"
#include "bindings/module/projection_class.h"
#include "bindings/module/row_device_capsule.h"
#include "bindings/module/statistics_dict.h"
#include "core/named_formats.h"
#include "emulation/cuda/allreduce/phases_cuda.h"
#include "emulation/cuda/allreduce/reduce_cuda.h"
#include "emulation/cuda/arithmetic/matmul_cuda.h"
#include "emulation/cuda/blocks/blocks_cuda.h"
#include "emulation/cuda/cast/quantize_cuda.h"
#include "emulation/cuda/machine/device.h"

namespace py = pybind11;
using namespace apscope;
using namespace apscope::detail;

namespace {

using Address = std::uintptr_t;

template <class T>
T* at(Address address) {
    return reinterpret_cast<T*>(address);
}

// The device of a call, which becomes the current device, and a stream of that device.
struct Queue {
    CurrentDevice device;
    CUstream_st* stream;
    Queue(int number, Address handle) : device(number), stream(at<CUstream_st>(handle)) {}
};

// The format with this name; throws if it does not support the projection.
FloatFormat format_for(const std::string& name, const Projection& projection) {
    const FloatFormat format = parse_format(name);
    validate(projection, format);
    return format;
}

[[noreturn]] void refuse_width(const char* what, int bytes) {
    throw std::invalid_argument(std::string(what) + " of " + std::to_string(bytes) +
                                " bytes are not supported on a GPU");
}

// Calls f with a null pointer to the type of codes of this many bytes.
template <class F>
void with_code(int bytes, F&& f) {
    switch (bytes) {
        case 1: return f(static_cast<std::uint8_t*>(nullptr));
        case 2: return f(static_cast<std::uint16_t*>(nullptr));
        case 4: return f(static_cast<std::uint32_t*>(nullptr));
        default: refuse_width("codes", bytes);
    }
}

BlockShape as_shape(const std::array<std::size_t, 3>& s) { return {s[0], s[1], s[2]}; }

void define_arrays(apscope::python::Module& m) {
    m.def("quantize",
          [](Address in, Address out, std::size_t n, int bytes, const std::string& format,
             const Projection& projection, std::uint64_t seed, int device, Address stream) {
              const FloatFormat f = format_for(format, projection);
              const Queue q(device, stream);
              if (bytes == 4)
                  quantize_on_device(at<const float>(in), at<float>(out), n, f, projection, seed,
                                     q.stream);
              else if (bytes == 8)
                  quantize_on_device(at<const double>(in), at<double>(out), n, f, projection, seed,
                                     q.stream);
              else refuse_width("numbers", bytes);
          });
    m.def("encode", [](Address in, Address out, std::size_t n, int bytes, int code_bytes,
                       const std::string& format, const Projection& projection, std::uint64_t seed,
                       std::optional<std::uint64_t> nan, int device, Address stream) {
        const FloatFormat f = format_for(format, projection);
        const Queue q(device, stream);
        const py::gil_scoped_release release;
        if (bytes == 8 && code_bytes == 8) {
            return encode_on_device(at<const double>(in), at<std::uint64_t>(out), n, f, projection,
                                    nan, seed, q.stream);
        }
        with_code(code_bytes, [&]<class Code>(Code*) {
            if (bytes == 4)
                encode_on_device(at<const float>(in), at<Code>(out), n, f, projection, nan, seed,
                                 q.stream);
            else
                encode_on_device(at<const double>(in), at<Code>(out), n, f, projection, nan, seed,
                                 q.stream);
        });
    });
    m.def("decode", [](Address in, Address out, std::size_t n, int code_bytes, int bytes,
                       const std::string& format, bool keep_payload, int device, Address stream) {
        const FloatFormat f = parse_format(format);
        const Queue q(device, stream);
        const py::gil_scoped_release release;
        if (bytes == 8 && code_bytes == 8)
            return decode_on_device(at<const std::uint64_t>(in), at<double>(out), n, f,
                                    keep_payload, q.stream);
        with_code(code_bytes, [&]<class Code>(Code*) {
            if (bytes == 4)
                decode_on_device(at<const Code>(in), at<float>(out), n, f, keep_payload, q.stream);
            else
                decode_on_device(at<const Code>(in), at<double>(out), n, f, keep_payload, q.stream);
        });
    });
    m.def("cast_statistics",
          [](Address in, Address out, std::size_t n, const std::string& format,
             const Projection& projection, std::uint64_t seed, int device, Address stream) {
              const FloatFormat f = format_for(format, projection);
              const Queue q(device, stream);
              ResultRow row;
              {
                  const py::gil_scoped_release release;
                  row = cast_statistics_on_device(at<const float>(in), at<float>(out), n, f,
                                                  projection, seed, q.stream);
              }
              return python::statistics_dict(row);
          });
    m.def("allreduce",
          [](Address in, std::size_t workers, Address out, std::size_t n, const std::string& format,
             const std::string& topology, const std::optional<std::string>& accumulate,
             const std::optional<std::string>& hop_rounding, bool input_cast,
             const Projection& projection, std::uint64_t seed, double scale, double divisor,
             int device, Address stream) {
              const FloatFormat f = format_for(format, projection);
              require_fp32(f, "allreduce");
              AllReduceOptions options;
              options.topology = parse_topology(topology);
              options.projection = projection;
              if (accumulate) {
                  options.accumulate = parse_format(*accumulate);
                  require_fp32(*options.accumulate, "allreduce");
              }
              if (hop_rounding) options.hop_rounding = parse_rounding(*hop_rounding);
              options.input_cast = input_cast;
              options.seed = seed;
              const Queue q(device, stream);
              all_reduce_on_device(at<const float>(in), workers, at<double>(out), n, f, options,
                                   {scale, divisor}, q.stream);
          });
    // Formats and projections are those of the encodings; scales: one per worker, or per shard.
    const auto encodings = [](const std::string& format, const Projection& projection,
                              const std::vector<double>& scales) {
        const FloatFormat f = format_for(format, projection);
        require_fp32(f, "two_phase");
        std::vector<PhaseEncoding> all;
        for (const double scale : scales) all.push_back({f, projection, scale});
        return all;
    };
    m.def("add_messages",
          [encodings](Address rows, std::size_t n, const std::string& format,
                      const Projection& projection, const std::vector<double>& scales,
                      const std::array<std::uint32_t, 2>& key, Address sums, int device,
                      Address stream) {
              const std::vector<PhaseEncoding> all = encodings(format, projection, scales);
              const Queue q(device, stream);
              add_messages_on_device(at<const float>(rows), n, all, {key[0], key[1]},
                                     at<float>(sums), q.stream);
          });
    m.def("encode_sums",
          [encodings](Address sums, std::size_t n, int workers, const std::string& format,
                      const Projection& projection, const std::vector<double>& scales,
                      const std::array<std::uint32_t, 2>& key, double divisor, Address out,
                      int device, Address stream) {
              const std::vector<PhaseEncoding> all = encodings(format, projection, scales);
              const Queue q(device, stream);
              encode_sums_on_device(at<const float>(sums), n, workers, all, {key[0], key[1]},
                                    divisor, at<float>(out), q.stream);
          });
    m.def("matmul",
          [](Address a, Address b, Address c, Address out, std::size_t batches, std::size_t rows,
             std::size_t terms, std::size_t columns, const std::string& format,
             const std::string& order, const std::optional<std::string>& accumulate,
             const std::optional<std::string>& product, const Projection& projection,
             std::uint64_t seed, int device, Address stream) {
              const FloatFormat f = format_for(format, projection);
              SumOptions options;
              options.order = parse_sum_order(order);
              options.format = f;
              if (accumulate) options.accumulate = parse_format(*accumulate);
              if (product) options.product = parse_format(*product);
              options.projection = projection;
              options.seed = seed;
              const Queue q(device, stream);
              const py::gil_scoped_release release;
              matmul_on_device(at<const float>(a), at<const float>(b), at<const float>(c),
                               at<float>(out), batches, rows, terms, columns, options, q.stream);
          });
}

void define_blocks(apscope::python::Module& m) {
    using Shape = std::array<std::size_t, 3>;
    m.def("quantize_blocks",
          [](Address in, Address out, const Shape& shape, const std::string& format,
             const Projection& p, std::uint64_t seed, int device, Address stream) {
              const Queue q(device, stream);
              quantize_blocks_on_device(at<const float>(in), at<float>(out), as_shape(shape),
                                        parse_block_format(format), p, seed, q.stream);
          });
    m.def("encode_blocks", [](Address in, Address codes, Address scales, const Shape& shape,
                              const std::string& format, const Projection& p, std::uint64_t seed,
                              int device, Address stream) {
        const Queue q(device, stream);
        const py::gil_scoped_release release;
        return static_cast<double>(encode_blocks_on_device(
            at<const float>(in), at<std::uint8_t>(codes), at<std::uint8_t>(scales), as_shape(shape),
            parse_block_format(format), p, seed, q.stream));
    });
    m.def("decode_blocks",
          [](Address codes, Address scales, double tensor_scale, Address out, const Shape& shape,
             const std::string& format, int device, Address stream) {
              const Queue q(device, stream);
              const py::gil_scoped_release release;
              decode_blocks_on_device(at<const std::uint8_t>(codes), at<const std::uint8_t>(scales),
                                      static_cast<float>(tensor_scale), at<float>(out),
                                      as_shape(shape), parse_block_format(format), q.stream);
          });
}

}  // namespace

PYBIND11_MODULE(_cuda, plain) {
    apscope::python::Module m(plain);
    m.doc() = "Kernels on a GPU; built with -DAPSCOPE_CUDA=ON.";
    m.def("device_count", &device_count);
    m.def("require_device", &require_device);
    m.def(
        "row_device",
        [](int device, std::uint64_t min_values) {
            return python::to_capsule(make_row_device(device, min_values));
        },
        py::arg("device"), py::arg("min_values") = values_for_gpu);
    m.def("device_of", [](Address address) { return device_of(at<const void>(address)); });
    m.def("allocate", [](std::size_t bytes, int device) {
        const CurrentDevice current(device);
        return reinterpret_cast<Address>(allocate_on_device(bytes));
    });
    m.def("release", [](Address address) {
        const py::gil_scoped_release release;
        release_on_device(at<void>(address));
    });
    m.def("to_host", [](Address address, py::array_t<std::uint8_t>& out, int device) {
        const CurrentDevice current(device);
        void* const to = out.mutable_data();
        const auto size = static_cast<std::size_t>(out.size());
        const py::gil_scoped_release release;  // a stream may wait for a function of Python
        copy_to_host(at<const void>(address), to, size);
    });
    // The content of a DLPack capsule: address, shape, strides in elements or None, type code,
    // bits, lanes, device type and number.
    m.def("read_dlpack", [](const py::capsule& capsule) {
        const python::DlTensor& t = python::dlpack_tensor(capsule);
        const std::vector<std::int64_t> shape(t.shape, t.shape + t.dimensions);
        std::optional<std::vector<std::int64_t>> strides;
        if (t.strides != nullptr) strides.emplace(t.strides, t.strides + t.dimensions);
        return py::make_tuple(reinterpret_cast<Address>(t.data) + t.byte_offset, shape, strides,
                              int{t.type_code}, int{t.type_bits}, int{t.lanes}, t.device_type,
                              t.device_id);
    });
    // A DLPack capsule of an array in C order, of version 1.0 or of those before, which keeps
    // `owner` alive.
    m.def("make_dlpack", [](Address data, const std::vector<std::int64_t>& shape, int type_code,
                            int bits, std::int32_t device_type, std::int32_t device,
                            const py::object& owner, bool versioned) {
        python::DlTensor tensor{};
        tensor.data = at<void>(data);
        tensor.device_type = device_type;
        tensor.device_id = device;
        tensor.type_code = static_cast<std::uint8_t>(type_code);
        tensor.type_bits = static_cast<std::uint8_t>(bits);
        tensor.lanes = 1;
        return versioned ? python::dlpack_capsule<python::DlManagedVersioned>(tensor, shape, owner)
                         : python::dlpack_capsule<python::DlManaged>(tensor, shape, owner);
    });
    // Work that `stream` gets from now on waits for that which `other` has.
    m.def("wait_for", [](Address stream, Address other, int device) {
        const CurrentDevice current(device);
        stream_waits_for(at<CUstream_st>(stream), at<CUstream_st>(other));
    });
    python::bind_projection(m);
    define_arrays(m);
    define_blocks(m);
}
