// Arrays in capsules of DLPack (https://dmlc.github.io/dlpack/latest/): the structures of versions
// before 1.0 and of 1.0, in the layout of the specification.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace apscope::python {

struct DlTensor {
    void* data;
    std::int32_t device_type, device_id;
    std::int32_t dimensions;
    std::uint8_t type_code, type_bits;
    std::uint16_t lanes;
    std::int64_t *shape, *strides;
    std::uint64_t byte_offset;
};

struct DlManaged {
    static constexpr const char* name = "dltensor";
    DlTensor tensor;
    void* context;
    void (*deleter)(DlManaged*);
};
struct DlManagedVersioned {
    static constexpr const char* name = "dltensor_versioned";
    std::uint32_t major, minor;
    void* context;
    void (*deleter)(DlManagedVersioned*);
    std::uint64_t flags;
    DlTensor tensor;
};

// The array in a capsule of either kind, which must not have been consumed.
inline const DlTensor& dlpack_tensor(const pybind11::capsule& capsule) {
    const auto open = [&]<class Managed>(const Managed*) {
        const void* p = PyCapsule_GetPointer(capsule.ptr(), Managed::name);
        if (p == nullptr) throw pybind11::error_already_set();
        return &static_cast<const Managed*>(p)->tensor;
    };
    if (PyCapsule_IsValid(capsule.ptr(), DlManagedVersioned::name))
        return *open(static_cast<const DlManagedVersioned*>(nullptr));
    return *open(static_cast<const DlManaged*>(nullptr));
}

// A capsule of an array in C order, which keeps `owner` alive; `tensor` without shape and strides.
template <class Managed>
pybind11::capsule dlpack_capsule(DlTensor tensor, std::vector<std::int64_t> shape,
                                 pybind11::object owner) {
    struct Context {
        Managed managed;
        std::vector<std::int64_t> shape;
        pybind11::object owner;
    };
    auto context = std::make_unique<Context>();
    context->shape = std::move(shape);
    context->owner = std::move(owner);
    tensor.dimensions = static_cast<std::int32_t>(context->shape.size());
    tensor.shape = context->shape.data();
    tensor.strides = nullptr;  // C order
    Managed& managed = context->managed;
    managed = {};
    managed.tensor = tensor;
    managed.context = context.get();
    managed.deleter = [](Managed* self) {
        const pybind11::gil_scoped_acquire acquire;
        delete static_cast<Context*>(self->context);
    };
    if constexpr (requires { managed.major; }) managed.major = 1;
    // A consumer renames the capsule, and calls the deleter itself.
    const auto drop = [](PyObject* capsule) {
        if (!PyCapsule_IsValid(capsule, Managed::name)) return;
        auto* const self = static_cast<Managed*>(PyCapsule_GetPointer(capsule, Managed::name));
        self->deleter(self);
    };
    PyObject* const made = PyCapsule_New(&managed, Managed::name, drop);
    if (made == nullptr) throw pybind11::error_already_set();
    context.release();
    return pybind11::reinterpret_steal<pybind11::capsule>(made);
}

}  // namespace apscope::python
