"""The threads of the BLAS library, which multiplies NumPy's matrices."""

from contextlib import AbstractContextManager, nullcontext
from threading import Lock


class OneBlasThread:
    """Holds BLAS to one thread from the first that enters until the last one leaves.

    The number of its threads belongs to the process, so that all share this.
    """

    def __init__(self):
        self.lock, self.inside = Lock(), 0

    def look_for_libraries(self):
        from threadpoolctl import ThreadpoolController

        self.controller = ThreadpoolController()

    def __enter__(self):
        with self.lock:
            if self.inside == 0:
                release_control()
                self.limit = self.controller.limit(limits=1, user_api="blas")
                release_control()
            self.inside += 1

    def __exit__(self, *error):
        with self.lock:
            self.inside -= 1
            if self.inside == 0:
                release_control()
                self.limit.restore_original_limits()
                release_control()


def release_control():
    """Let any thread set limits: threadpoolctl obeys the first that does, and no other."""
    from threadpoolctl import OpenBLASController

    OpenBLASController.clear_controlling_thread(force=True)


ONE_BLAS_THREAD = OneBlasThread()


def one_blas_thread() -> AbstractContextManager:
    """Return what holds BLAS to one thread; nothing, where threadpoolctl is not installed.

    The matrices of small models are multiplied in less time than several threads take to meet.
    """
    try:
        ONE_BLAS_THREAD.look_for_libraries()
    except ModuleNotFoundError:
        return nullcontext()
    return ONE_BLAS_THREAD
