// Rows of a table as NumPy columns.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace apscope::python {

using namespace detail;

namespace py = pybind11;

// One string object per text of a list. Arrays of objects are filled with them by index into the
// list.
class Texts {
public:
    template <class List, class Get>
    Texts(const List& list, Get get) {
        for (const auto& one : list) strings_.append(py::str(get(one)));
    }
    PyObject* operator[](std::size_t i) const {
        return PyList_GET_ITEM(strings_.ptr(), static_cast<py::ssize_t>(i));
    }

private:
    py::list strings_;
};

// Makes string objects of texts; equal texts share one object.
class TextPool {
public:
    PyObject* operator()(const std::string& text) {
        if (last_ == nullptr || last_->first != text)
            last_ = &*known_.try_emplace(text, text).first;
        return last_->second.ptr();
    }

private:
    std::unordered_map<std::string, py::str> known_;
    const std::pair<const std::string, py::str>* last_ = nullptr;
};

// Columns of rows, filled a few rows at a time to stay in cache. Each column has a `get`: a
// function that is called with a row, or a pointer to a member of a row.
template <class Row>
class Columns {
public:
    explicit Columns(const std::vector<Row>& rows) : rows_(rows) {}

    template <class T, class Get>
    void plain(const char* name, Get get) {
        py::array_t<T> values(length());
        dict_[name] = values;
        fill([out = values.mutable_data(), get](const Row& row, std::size_t i) {
            out[i] = std::invoke(get, row);
        });
    }
    // A column of integers with empty cells: the values, and a mask of the empty cells.
    template <class Get>
    void integers(const char* name, Get get) {
        py::array_t<std::int64_t> values(length());
        py::array_t<bool> empty(length());
        dict_[name] = py::make_tuple(values, empty);
        fill([out = values.mutable_data(), mask = empty.mutable_data(), get](const Row& row,
                                                                             std::size_t i) {
            const std::optional<std::int64_t> v = std::invoke(get, row);
            out[i] = v.value_or(0);
            mask[i] = !v;
        });
    }
    // `get` returns a string object, which must live as long as the columns.
    template <class Get>
    void texts(const char* name, Get get) {
        py::array objects(py::dtype("O"), py::array::ShapeContainer{length()});
        dict_[name] = objects;
        fill([out = static_cast<PyObject**>(objects.mutable_data()), get](const Row& row,
                                                                          std::size_t i) mutable {
            PyObject* text = get(row);
            Py_INCREF(text);
            Py_XDECREF(out[i]);
            out[i] = text;
        });
    }
    py::dict take() {
        constexpr std::size_t some = 256;
        for (std::size_t begin = 0; begin < rows_.size(); begin += some) {
            for (const auto& fill : fills_) fill(begin, std::min(begin + some, rows_.size()));
        }
        return dict_;
    }

private:
    py::ssize_t length() const { return static_cast<py::ssize_t>(rows_.size()); }
    template <class One>
    void fill(One one) {
        fills_.push_back([this, one](std::size_t begin, std::size_t end) mutable {
            for (std::size_t i = begin; i < end; ++i) one(rows_[i], i);
        });
    }

    const std::vector<Row>& rows_;
    py::dict dict_;
    std::vector<std::function<void(std::size_t, std::size_t)>> fills_;
};

}  // namespace apscope::python
