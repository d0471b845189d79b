"""What all optimisers share."""

from transformer_core.names import check_fit


class Optimizer:
    """Updates parameters in place from their gradients.

    Parameters
    ----------
    parameters : dict of str to ndarray
        What ``layer.parameters()`` returns.
    learning_rate : float
        May be changed between steps.
    """

    def __init__(self, parameters, learning_rate):
        if not learning_rate > 0:
            raise ValueError(
                f"learning_rate: expected a positive number, got {learning_rate}"
            )
        self.parameters = parameters
        self.learning_rate = learning_rate
        self.steps = 0

    def step(self, grads):
        """Take one step.

        Parameters
        ----------
        grads : dict of str to ndarray
            One gradient for each parameter, under the same name.

        Raises
        ------
        ValueError
            If a parameter has no gradient, a gradient no parameter, or a shape differs. Nothing
            is updated then.
        """
        check_fit("grads", grads, self.parameters)
        self.steps += 1
        for name, parameter in self.parameters.items():
            self.update(name, parameter, grads[name])
