"""The mean squared error as different readers write it."""

import numpy as np


class Loops:
    """One entry after the other."""

    def forward(prediction, target):
        loss = 0.0
        for at in np.ndindex(prediction.shape):
            loss += (prediction[at] - target[at]) ** 2 / prediction.size
        return loss, (prediction, target)

    def backward(dloss, cache):
        prediction, target = cache
        dprediction = np.zeros(prediction.shape)
        for at in np.ndindex(prediction.shape):
            dprediction[at] = 2 * (prediction[at] - target[at]) / prediction.size * dloss
        return dprediction


class Dot:
    """The error as one long vector."""

    def forward(prediction, target):
        error = (prediction - target).ravel()
        return error @ error / len(error), (error, prediction.shape)

    def backward(dloss, cache):
        error, shape = cache
        return (2 / len(error) * dloss * error).reshape(shape)


class Norm:
    """The square of a length, whose derivative is twice the vector."""

    def forward(prediction, target):
        difference = target - prediction
        loss = np.linalg.norm(difference) ** 2 / difference.size
        return loss, {"difference": difference}

    def backward(dloss, cache):
        difference = cache["difference"]
        return -np.mean([2, 2]) * dloss * difference / difference.size


RIGHT = {"mean_squared_error": [Loops, Dot, Norm]}
