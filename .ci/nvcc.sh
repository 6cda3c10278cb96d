# To be sourced, in the project's folder: puts an nvcc on the PATH. The machine's, or, if there is
# none, NVIDIA's compiler from PyPI, installed into build/nvcc by $1, a Python with pip. Returns 1 if
# neither is there.

if ! command -v nvcc >/dev/null; then
    nvcc_folder=build/nvcc nvcc_home=$PWD/build/nvcc/nvidia/cu13
    if [[ ! -e $nvcc_folder/complete ]]; then
        echo "Installing NVIDIA's compiler from PyPI into $nvcc_folder"
        rm -rf "$nvcc_folder"
        nvcc_packages=(nvidia-cuda-nvcc nvidia-cuda-crt nvidia-cuda-runtime nvidia-cuda-cccl nvidia-nvvm)
        "$1" -m pip install --quiet --no-deps --target "$nvcc_folder" \
            "${nvcc_packages[@]/%/==13.*}" || return 1
        # Wheels lack permissions to run, the linker's name of the library, and the folder where
        # nvcc looks for it.
        chmod +x "$nvcc_home"/bin/* "$nvcc_home"/nvvm/bin/*
        ln -sf "$(basename "$nvcc_home"/lib/libcudart.so.*)" "$nvcc_home/lib/libcudart.so"
        ln -sfn lib "$nvcc_home/lib64"
        touch "$nvcc_folder/complete"
    fi
    export PATH=$nvcc_home/bin:$PATH CUDACXX=$nvcc_home/bin/nvcc
fi
