"""torch's own matrix: an OptimizerInfo for each of the family, walked by the checks that torch runs on its optimizers.

Driven here, with the inputs that `torch.testing._internal.common_optimizers` makes for every flag and setting: errors,
going in the right direction (with schedulers), for-loop = foreach, mixed dtypes, tensor lr, complex parameters, absent
and zero gradients, groups, printing, state_dict determinism, checkpoints with weights_only, hooks, deepcopy, closures.

Of torch's checks these do not apply: those that need CUDA (fused, which test_fused shows in Triton's interpreter, peak
memory, graphs, several devices): CI has no GPU. Sparse gradients: refused, see test_errors. Older state_dicts and
non-tensor steps: there is no older format. LBFGS's and SparseAdam's own.
"""

import functools
import pickle
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import ExponentialLR, ReduceLROnPlateau, StepLR
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_optimizers import (
    ErrorOptimizerInput,
    OptimizerErrorEnum,
    OptimizerInfo,
    OptimizerInput,
    TensorTracker,
    _get_optim_inputs_including_global_cliquey_kwargs,
    get_error_inputs_for_all_optims,
    optims,
)
from torch.testing._internal.common_utils import TestCase

from adamplus import NIGT, AdamPlus, NAdamPlus


def inputs(device: Any, dtype: Any = None) -> list[OptimizerInput]:
    settings: dict[str, dict[str, Any]] = {
        "default": {},
        "non-default lr": {"lr": 0.01},
        "tensor lr": {"lr": torch.tensor(0.01)},
        "weight_decay": {"weight_decay": 0.1},
        "decoupled": {"weight_decay": 0.003, "decoupled_weight_decay": True},
        "maximize": {"weight_decay": 0.1, "maximize": True},
        "tensor scope": {"norm_scope": "tensor"},
    }
    none: Any = None
    return [OptimizerInput(params=none, kwargs=kwargs, desc=desc) for desc, kwargs in settings.items()]


def error_inputs(device: Any, dtype: Any) -> list[ErrorOptimizerInput]:
    cases = [
        ({"lr": -1.0}, ValueError, "lr must be finite and at least 0, got -1.0"),
        ({"eps": -1e-3}, ValueError, "eps must be finite and at least 0, got -0.001"),
        ({"weight_decay": -1}, ValueError, "weight_decay must be finite and at least 0, got -1"),
        ({"norm_scope": "layer"}, ValueError, "norm_scope must be one of 'global', 'group', 'tensor', got 'layer'"),
        ({"fused": True, "foreach": True}, RuntimeError, "`fused` and `foreach` cannot be `True` together"),
        ({"fused": True, "differentiable": True}, RuntimeError, "`fused` does not support `differentiable`"),
    ]
    none: Any = None
    own = [
        ErrorOptimizerInput(OptimizerInput(params=none, kwargs=kw), error_type=kind, error_regex=words)
        for kw, kind, words in cases
    ]
    return get_error_inputs_for_all_optims(device, dtype) + own


FAMILY = [
    OptimizerInfo(
        cls,  # pyright: ignore[reportArgumentType]
        optim_inputs_func=inputs,
        optim_error_inputs_func=error_inputs,
        scheduler_inputs=(
            [lambda opt: StepLR(opt, gamma=0.9, step_size=10)],
            [lambda opt: ExponentialLR(opt, gamma=0.99), lambda opt: ReduceLROnPlateau(opt)],
        ),
        supported_impls=("foreach", "differentiable"),
        has_capturable_arg=True,
        supports_complex=True,
    )
    for cls in (AdamPlus, NAdamPlus, NIGT)
]


def every_input(device: Any, dtype: Any, info: OptimizerInfo, skip: tuple[str, ...] = ()) -> list[OptimizerInput]:
    return _get_optim_inputs_including_global_cliquey_kwargs(device, dtype, info, skip=skip)


def make(info: OptimizerInfo, params: Any, **kwargs: Any) -> Any:
    return info.optim_cls(params, **kwargs)  # pyright: ignore[reportCallIssue]


class Matrix(TestCase):
    @optims(FAMILY)
    def test_errors(self, device: Any, dtype: Any, optim_info: Any) -> None:
        for error in optim_info.optim_error_inputs_func(device=device, dtype=dtype):
            case = error.optimizer_error_input
            ps = case.params if case.params is not None else [torch.randn(2, requires_grad=True)]
            self.assertIs(error.error_on, OptimizerErrorEnum.CONSTRUCTION_ERROR)
            if issubclass(error.error_type, Warning):
                with self.assertWarnsRegex(error.error_type, error.error_regex):
                    make(optim_info, ps, **case.kwargs)
            else:
                with pytest.raises(error.error_type, match=error.error_regex):
                    make(optim_info, ps, **case.kwargs)

    @optims(FAMILY)
    def test_goes_in_the_right_direction_with_every_scheduler(self, device: Any, dtype: Any, optim_info: Any) -> None:
        for schedulers in ([], *optim_info.scheduler_inputs):
            for case in every_input(device, dtype, optim_info, skip=("differentiable",)):
                torch.manual_seed(0)
                weight, bias = nn.Parameter(torch.randn(10, 5)), nn.Parameter(torch.randn(10))
                x = torch.randn(5)
                # `maximize` ascends the loss that the others descend; decay would pull either back
                kwargs = {**deepcopy(case.kwargs), "weight_decay": 0.0}
                optimizer = make(optim_info, [weight, bias], **kwargs)
                built = [schedule(optimizer) for schedule in schedulers]

                def closure(weight=weight, bias=bias, x=x, optimizer=optimizer) -> torch.Tensor:
                    optimizer.zero_grad()
                    loss = (weight.mv(x) + bias).pow(2).sum()
                    loss.backward()
                    return loss

                first = closure().item()
                for _ in range(20):
                    loss = optimizer.step(closure)
                    for schedule in built:
                        schedule.step(*([loss] if isinstance(schedule, ReduceLROnPlateau) else []))
                last = closure().item()
                self.assertTrue(last > first if kwargs.get("maximize") else last < first, msg=f"{case.desc} {kwargs}")

    @optims(FAMILY, dtypes=[torch.float64, torch.float32, torch.bfloat16])
    def test_foreach_matches_forloop(self, device: Any, dtype: Any, optim_info: Any) -> None:
        for case in optim_info.optim_inputs_func(device=device):
            tracker = TensorTracker({"rtol": 0, "atol": 0})  # the same kernels on a CPU: the same bits
            for foreach in (False, True):
                torch.manual_seed(1)
                model: Any = nn.Sequential(nn.Linear(10, 3), nn.Sigmoid(), nn.Linear(3, 1), nn.Sigmoid()).to(dtype)
                empty = nn.Parameter(torch.empty(0, dtype=dtype))
                empty.grad = torch.rand_like(empty)
                frozen = nn.Parameter(torch.ones(2, dtype=dtype), requires_grad=False)
                optimizer = make(
                    optim_info, [*model.parameters(), empty, frozen], foreach=foreach, **deepcopy(case.kwargs)
                )
                x = torch.randn(4, 10, dtype=dtype)
                for i in range(7):
                    model.zero_grad()
                    model(x).sum().backward()
                    if i == 3:  # one step with a gradient missing
                        model[2].bias.grad = None
                    optimizer.step()
                    for p in model.parameters():
                        for tensor in (p, *optimizer.state[p].values()):
                            tracker.pop_check_set(tensor, self) if foreach else tracker.add(tensor)
            self.assertTrue(tracker.all_popped())

    @optims(FAMILY)
    def test_mixed_dtypes_in_one_optimizer(self, device: Any, dtype: Any, optim_info: Any) -> None:
        kinds = [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.complex64]
        for case in optim_info.optim_inputs_func(device=device):
            results = []
            for foreach in (False, True):
                torch.manual_seed(0)
                ps = [nn.Parameter(torch.randn(4).to(kind)) for kind in kinds]
                optimizer = make(optim_info, ps, foreach=foreach, **deepcopy(case.kwargs))
                for _ in range(3):
                    for p in ps:
                        p.grad = torch.randn(4).to(p.dtype)
                    optimizer.step()
                results.append([p.detach() for p in ps])
            self.assertEqual(results[0], results[1], rtol=0, atol=0)

    @optims(FAMILY)
    def test_tensor_lr(self, device: Any, dtype: Any, optim_info: Any) -> None:
        for case in every_input(device, dtype, optim_info, skip=("differentiable",)):
            for shape in ((), (1,), (1, 1)):
                runs = []
                for lr in (0.05, torch.tensor(0.05, dtype=torch.float64).reshape(shape)):
                    torch.manual_seed(0)
                    p = nn.Parameter(torch.randn(5))
                    optimizer = make(optim_info, [p], **{**case.kwargs, "lr": lr})
                    scheduler = ExponentialLR(optimizer, gamma=0.9)
                    for _ in range(5):
                        p.grad = torch.randn(5)
                        optimizer.step()
                        scheduler.step()
                    runs.append((p.detach(), float(optimizer.param_groups[0]["lr"])))
                self.assertEqual(runs[0], runs[1])

    @optims(FAMILY, dtypes=[torch.complex64, torch.complex128])
    def test_complex_is_a_pair_of_reals(self, device: Any, dtype: Any, optim_info: Any) -> None:
        for case in every_input(device, dtype, optim_info, skip=("differentiable",)):
            torch.manual_seed(0)
            one = torch.randn(10, 5, dtype=dtype, requires_grad=True)
            two = torch.view_as_real(one).detach().clone().requires_grad_()
            optimizers = [make(optim_info, [p], **deepcopy(case.kwargs)) for p in (one, two)]
            for _ in range(3):
                for p, optimizer in zip((one, two), optimizers, strict=True):
                    z = p if p.is_complex() else torch.view_as_complex(p)
                    optimizer.zero_grad()
                    (z - 1).abs().square().sum().backward()
                    optimizer.step()
            self.assertEqual(torch.view_as_real(one), two)
            self.assertEqual(optimizers[0].state[one]["z"].dtype, dtype)
            self.assertEqual(torch.view_as_real(optimizers[0].state[one]["z"]), optimizers[1].state[two]["z"])

    @optims(FAMILY)
    def test_no_gradient_changes_nothing(self, device: Any, dtype: Any, optim_info: Any) -> None:
        for case in every_input(device, dtype, optim_info):
            p = torch.randn(2, 3, requires_grad=True)
            before = p.detach().clone()
            optimizer = make(optim_info, [p], **case.kwargs)
            optimizer.step()
            self.assertEqual(list(optimizer.state.keys()), [])
            self.assertEqual(p, before, rtol=0, atol=0)

    @optims(FAMILY)
    def test_zero_gradients_move_nothing(self, device: Any, dtype: Any, optim_info: Any) -> None:
        for case in every_input(device, dtype, optim_info, skip=("differentiable",)):
            for eps in (1e-8, 0.0):
                p = torch.randn(2, 3, requires_grad=True)
                before = p.detach().clone()
                optimizer = make(optim_info, [p], **{**case.kwargs, "weight_decay": 0.0, "eps": eps})
                for _ in range(3):
                    p.grad = torch.zeros_like(p)
                    optimizer.step()
                self.assertEqual(p, before, rtol=0, atol=0)

    @optims(FAMILY)
    def test_groups_have_their_own_lr_and_decay(self, device: Any, dtype: Any, optim_info: Any) -> None:
        for case in every_input(device, dtype, optim_info, skip=("differentiable",)):
            still, moving = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
            groups = [{"params": [still], "lr": 0.0}, {"params": [moving]}]
            optimizer = make(optim_info, groups, **deepcopy(case.kwargs))
            for _ in range(3):
                still.grad, moving.grad = torch.ones(3), torch.ones(3)
                optimizer.step()
            self.assertEqual(still, torch.ones(3))
            self.assertTrue((moving != 1).all())

    @optims(FAMILY)
    def test_can_be_printed(self, device: Any, dtype: Any, optim_info: Any) -> None:
        for case in every_input(device, dtype, optim_info):
            optimizer = make(optim_info, [torch.randn(2, requires_grad=True)], **case.kwargs)
            self.assertIn("norm_power", repr(optimizer))

    @optims(FAMILY)
    def test_state_dict_is_deterministic(self, device: Any, dtype: Any, optim_info: Any) -> None:
        for case in every_input(device, dtype, optim_info, skip=("differentiable",)):
            torch.manual_seed(0)
            weight, bias, x = torch.randn(2, 3, requires_grad=True), torch.randn(2, requires_grad=True), torch.randn(3)

            def closure(optimizer: Any, weight: Any, bias: Any, x: Any) -> torch.Tensor:
                optimizer.zero_grad()
                loss = (weight.mv(x) + bias).pow(2).sum()
                loss.backward()
                return loss

            optimizer = make(optim_info, [weight, bias], **deepcopy(case.kwargs))
            for _ in range(5):
                optimizer.step(functools.partial(closure, optimizer, weight, bias, x))
            twins = [t.detach().clone().requires_grad_() for t in (weight, bias)]
            copied = make(optim_info, twins, **deepcopy(case.kwargs))
            copied.load_state_dict(deepcopy(optimizer.state_dict()))
            self.assertEqual(optimizer.state_dict(), copied.state_dict())
            for _ in range(5):
                optimizer.step(functools.partial(closure, optimizer, weight, bias, x))
                copied.step(functools.partial(closure, copied, *twins, x))
                self.assertEqual([weight, bias], twins, rtol=0, atol=0)
            self.assertEqual(optimizer.state_dict(), copied.state_dict())

    @optims(FAMILY)
    def test_named_parameters_are_kept_and_saved(self, device: Any, dtype: Any, optim_info: Any) -> None:
        model = nn.Linear(2, 2)
        optimizer = make(optim_info, model.named_parameters())
        self.assertEqual(optimizer.state_dict()["param_groups"][0]["param_names"], ["weight", "bias"])

    @optims(FAMILY)
    def test_hooks_run_in_order(self, device: Any, dtype: Any, optim_info: Any) -> None:
        data: list[str] = []
        p = torch.ones(2, requires_grad=True)
        p.grad = torch.ones(2)
        optimizer = make(optim_info, [p])
        handles = [
            optimizer.register_step_pre_hook(lambda *_: data.append("pre")),
            optimizer.register_step_post_hook(lambda *_: data.append("post")),
            optimizer.register_state_dict_pre_hook(lambda *_: data.append("saving")),
            optimizer.register_state_dict_post_hook(lambda *_: data.append("saved")),
            optimizer.register_load_state_dict_pre_hook(lambda *_: data.append("loading")),
            optimizer.register_load_state_dict_post_hook(lambda *_: data.append("loaded")),
        ]
        optimizer.step()
        optimizer.load_state_dict(optimizer.state_dict())
        self.assertEqual(data, ["pre", "post", "saving", "saved", "loading", "loaded"])
        for handle in handles:
            handle.remove()
        optimizer.step()
        optimizer.load_state_dict(optimizer.state_dict())
        self.assertEqual(len(data), 6)

    @optims(FAMILY)
    def test_deepcopy_and_pickle_keep_all_public_attributes(self, device: Any, dtype: Any, optim_info: Any) -> None:
        for case in every_input(device, dtype, optim_info, skip=("differentiable",)):
            p = nn.Parameter(torch.randn(5))
            optimizer = make(optim_info, [p], **case.kwargs)
            p.grad = torch.randn(5)
            optimizer.step()
            public = {name for name in vars(optimizer) if not name.startswith("_")}
            for copied in (deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
                self.assertEqual({name for name in vars(copied) if not name.startswith("_")}, public)
                self.assertEqual(copied.state_dict(), optimizer.state_dict())

    @optims(FAMILY)
    def test_state_is_one_buffer_and_two_scalars(self, device: Any, dtype: Any, optim_info: Any) -> None:
        for case in every_input(device, dtype, optim_info, skip=("differentiable",)):
            p = torch.randn(2, 3, requires_grad=True)
            optimizer = make(optim_info, [p], **case.kwargs)
            p.grad = torch.randn(2, 3)
            optimizer.step()
            shapes = {name: tuple(value.shape) for name, value in optimizer.state[p].items()}
            self.assertEqual(shapes, {"z": (2, 3), "offset": (), "step": ()})

    @optims(FAMILY)
    def test_default_dtype_does_not_leak_into_the_state(self, device: Any, dtype: Any, optim_info: Any) -> None:
        before = torch.get_default_dtype()
        try:
            torch.set_default_dtype(torch.float64)
            p = torch.randn(3, dtype=torch.float32, requires_grad=True)
            p.grad = torch.ones(3, dtype=torch.float32)
            optimizer = make(optim_info, [p])
            optimizer.step()
        finally:
            torch.set_default_dtype(before)
        self.assertEqual([v.dtype for v in optimizer.state[p].values()], [torch.float32] * 3)


instantiate_device_type_tests(Matrix, globals(), only_for="cpu")
