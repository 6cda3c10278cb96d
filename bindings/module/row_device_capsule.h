// Passes a RowDevice from the module _cuda, which makes it, to _core, which replays with it. The
// modules are built separately, so a capsule also has the version of apscope that made it and the
// sizes of the shared structures, which _core compares with its own.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <stdexcept>

#include "analysis/replay/row_device.h"

namespace apscope::python {

using namespace detail;

inline constexpr const char* row_device_name = "apscope.RowDevice " APSCOPE_VERSION;
inline constexpr std::size_t row_device_layout = sizeof(RowDevice) << 48 | sizeof(RowTask) << 32 |
                                                 sizeof(RowTotals) << 16 | sizeof(ErrorStatistics);

inline pybind11::capsule to_capsule(std::unique_ptr<RowDevice> device) {
    pybind11::capsule capsule(device.release(), row_device_name, [](PyObject* o) {
        delete static_cast<RowDevice*>(PyCapsule_GetPointer(o, row_device_name));
    });
    // The context is a number, which is compared and never dereferenced.
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    PyCapsule_SetContext(capsule.ptr(), reinterpret_cast<void*>(row_device_layout));
    return capsule;
}

// Null for None. The capsule keeps the device alive.
inline RowDevice* from_capsule(const pybind11::object& device) {
    if (device.is_none()) return nullptr;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): as above
    if (PyCapsule_IsValid(device.ptr(), row_device_name) == 0 ||
        PyCapsule_GetContext(device.ptr()) != reinterpret_cast<void*>(row_device_layout)) {
        PyErr_Clear();
        throw std::runtime_error("the CUDA module and the rest of apscope were not built from the "
                                 "same sources; build both again");
    }
    return static_cast<RowDevice*>(PyCapsule_GetPointer(device.ptr(), row_device_name));
}

}  // namespace apscope::python
