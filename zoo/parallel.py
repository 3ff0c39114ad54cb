"""Several processes at one training: who is who, what each one does, and a model spread over them. No domain.

Processes are started by torchrun; gloo carries what lies on the CPU, NCCL what lies on CUDA devices. With one process
everything here is the identity.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from zoo.sync_norm import sync_norms
from zoo.train_settings import Parallel

Item = TypeVar("Item")
AXES = ("data", "shard", "tensor")


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Where this process stands. group: the processes with the same part of each layer; None: all there are."""

    data_rank: int
    data_world: int
    group: dist.ProcessGroup | None


_places: list[_Place] = []  # empty until `distribute` has laid out the mesh, then one


def start(device: str = "auto") -> torch.device:
    """The device of this process; joins the others where torchrun started several.

    device: auto (CUDA where there is any), cpu, cuda or cuda:N. Raises ValueError for CUDA that is not there.
    """
    kind = device.partition(":")[0]
    if kind == "auto":
        kind = "cuda" if torch.cuda.is_available() else "cpu"
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"device: came {device!r}, torch {torch.__version__} finds no CUDA device here; take cpu or auto"
        )
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if several and not dist.is_initialized():
        dist.init_process_group("cpu:gloo,cuda:nccl" if kind == "cuda" else "gloo")
    if kind == "cpu":
        return torch.device("cpu")
    index = int(os.environ["LOCAL_RANK"]) if several else int(device.partition(":")[2] or 0)
    if index >= torch.cuda.device_count():
        raise ValueError(f"device: cuda:{index} is wanted and this machine has {torch.cuda.device_count()} of them")
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


def stop() -> None:
    """Leaves the other processes; the last thing a script does."""
    _places.clear()
    if dist.is_initialized():
        dist.destroy_process_group()


def rank() -> int:
    """The number of this process, from 0."""
    return dist.get_rank() if dist.is_initialized() else int(os.environ.get("RANK", "0"))


def world() -> int:
    """How many processes there are."""
    return dist.get_world_size() if dist.is_initialized() else int(os.environ.get("WORLD_SIZE", "1"))


def data_rank() -> int:
    """Which part of the data is this process's; processes that share layers (tensor) have the same part."""
    return _places[0].data_rank if _places else rank()


def data_world() -> int:
    """Into how many parts the data are cut."""
    return _places[0].data_world if _places else world()


def data_group() -> dist.ProcessGroup | None:
    """The processes that hold the other parts of the data; None: all there are."""
    return _places[0].group if _places else None


def shard(count: int, rank: int, world: int) -> range:
    """The indices of one process of `world`: in rank order they are 0 .. count - 1, each once, and differ by 1 at most.

    >>> [list(shard(5, rank, 2)) for rank in (0, 1)]
    [[0, 1], [2, 3, 4]]
    """
    return range(count * rank // world, count * (rank + 1) // world)


def gather(items: list[Item]) -> list[Item]:
    """The lists of all parts of the data, one after another in the order of `data_rank`; every process gets it."""
    if data_world() == 1:
        return list(items)
    parts: list[Any] = [None] * data_world()
    dist.all_gather_object(parts, items, group=data_group())
    return [item for part in parts for item in part]


def mean(values: list[float], device: torch.device) -> list[float]:
    """The mean over all processes of each value, in float64."""
    if world() == 1:
        return values
    tensor = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(tensor)
    return cast(list[float], (tensor / world()).tolist())


def from_first(value: Any) -> Any:
    """What process 0 has, on every process; a small thing that can be pickled."""
    if world() == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def from_all(value: Any) -> list[Any]:
    """What each process has, in order of rank, on every process."""
    if world() == 1:
        return [value]
    values = [None] * world()
    dist.all_gather_object(values, value)
    return values


def degrees(settings: Parallel, processes: int) -> tuple[int, int, int]:
    """data, shard and tensor as numbers. Raises ValueError where their product is not the number of processes."""
    held = settings.shard * settings.tensor
    data = max(1, processes // held) if settings.data == "auto" else settings.data
    if data * held != processes:
        raise ValueError(
            f"parallel: data {settings.data} x shard {settings.shard} x tensor {settings.tensor} does not give the "
            f"{processes} process(es) there are; start {data * held} with torchrun --nproc-per-node, or change a number"
        )
    return data, settings.shard, settings.tensor


def distribute(model: nn.Module, settings: Parallel, device: torch.device) -> nn.Module:
    """`model` on its device and spread over all processes: what is to be called in training.

    Every process begins with process 0's weights. data alone gives DistributedDataParallel around the model; shard and
    tensor change the model itself, whose parameters are DTensors then. Raises ValueError.
    """
    data, shards, tensors = degrees(settings, world())
    model.to(device)
    _places.clear()
    if world() == 1:
        return model
    mesh = init_device_mesh(device.type, (data, shards, tensors), mesh_dim_names=AXES)
    groups = [[(part * tensors) + member for part in range(data * shards)] for member in range(tensors)]
    group = cast(dist.ProcessGroup, dist.new_subgroups_by_enumeration(groups)[0])
    _places.append(_Place(data_rank=rank() // tensors, data_world=data * shards, group=group))
    _copy_from_first([*model.parameters(), *model.buffers()])
    if settings.sync_norm and data * shards > 1:
        sync_norms(model, data_group)
    if tensors > 1:
        _split_layers(model, mesh["tensor"])
    if shards == 1 and tensors == 1:
        return DistributedDataParallel(model, broadcast_buffers=False)
    if data * shards > 1:
        _spread(model, mesh["data", "shard"] if data > 1 else mesh["shard"])
    return model


def _copy_from_first(tensors: Iterable[Tensor]) -> None:
    for tensor in tensors:
        dist.broadcast(tensor.detach(), src=0)


def _split_layers(model: nn.Module, mesh: DeviceMesh) -> None:
    """Tensor parallelism by the network's own plan: the names of linear layers and how each one is cut."""
    plan = getattr(model, "tensor_plan", None)
    if plan is None:
        raise ValueError(
            f"parallel.tensor={mesh.size()}: {type(model).__name__} has no tensor_plan(), so its layers cannot be cut; "
            "take parallel.shard, which needs none"
        )
    styles: dict[str, type[ParallelStyle]] = {"colwise": ColwiseParallel, "rowwise": RowwiseParallel}
    named = dict(model.named_modules())
    wanted = plan()
    for name, style in wanted.items():
        if style not in styles:
            raise ValueError(f"tensor_plan: {name}: came {style!r}; give one of {', '.join(styles)}")
        if name not in named:
            raise ValueError(f"tensor_plan: {name}: the network has no such module")
    parallelize_module(model, mesh, {name: styles[style]() for name, style in wanted.items()})
    for name in wanted:
        assert all(isinstance(parameter, DTensor) for parameter in named[name].parameters()), name


def _spread(model: nn.Module, mesh: DeviceMesh) -> None:
    """FSDP2: each block of the network on its own, then what is left with the whole."""
    for block in _blocks(model):
        fully_shard(block, mesh=mesh, reshard_after_forward=True)
    fully_shard(model, mesh=mesh, reshard_after_forward=False)
    assert all(isinstance(parameter, DTensor) for parameter in model.parameters())


def _blocks(module: nn.Module) -> list[nn.Module]:
    """The children that are called as one; of a mere container, whose owner may call its parts, its children."""
    found = []
    for child in module.children():
        if isinstance(child, nn.ModuleList | nn.ModuleDict | nn.Sequential):
            found += _blocks(child)
        elif any(True for _ in child.parameters()):
            found.append(child)
    return found


@contextmanager
def gathered(model: nn.Module) -> Iterator[None]:
    """While it lasts every process holds every weight that was sharded, so that it may call the model as often as it
    likes: processes that evaluate unequal parts of the data do not wait for one another."""
    sharded = [module for module in model.modules() if isinstance(module, FSDPModule)]
    for module in sharded:
        module.set_reshard_after_forward(False, recurse=False)
        module.unshard()
    try:
        yield
    finally:
        for module in sharded:
            module.reshard()
            module.set_reshard_after_forward(module is not model, recurse=False)


def plain(model: nn.Module) -> nn.Module:
    """The model inside DistributedDataParallel; any other as it is."""
    return cast(nn.Module, model.module) if isinstance(model, DistributedDataParallel) else model


def sync_gradients(model: nn.Module, wanted: bool) -> None:
    """Whether the coming backward pass adds the processes' gradients up; the last one before a step must."""
    if isinstance(model, DistributedDataParallel):
        model.require_backward_grad_sync = wanted
    elif isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(wanted)
        model.set_is_last_backward(wanted)


def same_buffers(model: nn.Module) -> None:
    """Gives every process the buffers of data part 0: batch-norm statistics that were not synced differ."""
    if data_world() == 1:
        return
    group = data_group()
    first = dist.get_global_rank(group, 0) if group is not None else 0
    for buffer in model.buffers():
        dist.broadcast(buffer, src=first, group=group)


def clip_gradients(model: nn.Module, limit: float | None) -> Tensor:
    """The norm of all gradients together, before they are scaled down to `limit`; None scales nothing.

    A scalar on the model's device, the same on every process.
    """
    meshes: dict[DeviceMesh | None, list[nn.Parameter]] = {}
    for parameter in model.parameters():
        gradient = parameter.grad
        if gradient is not None:
            mesh = gradient.device_mesh if isinstance(gradient, DTensor) else None
            meshes.setdefault(mesh, []).append(parameter)
    norms = []
    for part in meshes.values():
        norm = torch.nn.utils.get_total_norm([cast(Tensor, parameter.grad) for parameter in part])
        norms.append(norm.full_tensor() if isinstance(norm, DTensor) else norm)
    if not norms:
        raise ValueError("no parameter has a gradient: the losses do not depend on the model")
    total = norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms))
    if limit is not None:
        for part in meshes.values():
            torch.nn.utils.clip_grads_with_norm_(part, limit, total)
    return total
