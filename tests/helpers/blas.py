from threadpoolctl import threadpool_info


def blas_threads():
    """The numbers of threads that the libraries of BLAS in this process may use."""
    return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}
