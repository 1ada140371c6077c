"""What the optimizers are, in one line each, for readers of a report who have never met them."""

DESCRIPTIONS: dict[str, str] = {
    "adam-plus": "Adam⁺ (Liu, Zhang, Orabona and Yang, 2020): a moving average z of gradients that are taken ahead of "
    "the weights, and a step length that adapts to ‖z‖; one buffer of state",
    "nadam-plus": "Nadam⁺: Adam⁺ with other powers, 2/3 of ‖z‖ and 4/3 of β",
    "nigt": "NIGT (Cutkosky and Mehta, 2020): steps of a fixed length along such an average of gradients; one buffer",
    "sgd": "stochastic gradient descent, without any state",
    "msgd": "stochastic gradient descent with a momentum of 0.9; one buffer",
    "adagrad": "AdaGrad (Duchi, Hazan and Singer, 2011): a rate for each weight, from the sum of its squared gradients",
    "adam": "Adam (Kingma and Ba, 2015): a rate for each weight, from moving averages of gradients and their squares; "
    "two buffers",
    "adamw": "AdamW (Loshchilov and Hutter, 2019): Adam with weight decay apart from the gradients; two buffers",
    "amsgrad": "AMSGrad (Reddi, Kale and Kumar, 2018): Adam with rates that never grow; three buffers",
    "rmsprop": "RMSprop (Hinton, 2012): a rate for each weight, from a moving average of squared gradients; one buffer",
    "radam": "RAdam (Liu et al., 2020): Adam with smaller steps while its averages are young; two buffers",
    "lion": "Lion (Chen et al., 2023): the sign of an average of gradients; one buffer",
    "muon": "Muon (Jordan et al., 2024): orthogonal steps for hidden matrices, and AdamW for everything else",
    "spectral-plus": "SpectralPlus: Adam⁺’s average of gradients from ahead, with orthogonal steps for hidden matrices "
    "and signs for everything else; one buffer",
    "scion": "the directions of Scion (Pethick et al., 2025): SpectralPlus without the look-ahead; one buffer",
    "schedule-free-sgd": "SGD with an average of its weights in place of a schedule (Defazio et al., 2024); one buffer",
    "schedule-free-adamw": "AdamW with an average of its weights in place of a schedule (Defazio et al., 2024)",
}


def describe(name: str) -> str:
    """The description of an optimizer by its name, or of a file of the user's."""
    return DESCRIPTIONS.get(name, f"defined in {name}" if name.endswith(".py") else "no description")
