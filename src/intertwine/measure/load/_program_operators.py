"""The operators that an exported program may call: a closed list, by name, of operators that only compute.

The list leaves out operators that read or write files (``from_file``), access raw memory (``set_``, ``resize_``,
``_unsafe_index``), have results whose size depends on values (``nonzero``, ``item``), repeat as often as an argument
says (``diff``, ``tensor_split``), wait for other processes, or come from other libraries.
"""

from __future__ import annotations

import re
from functools import cache

import torch


def _names(text: str) -> frozenset[str]:
    """The words of a text, without its comments."""
    return frozenset(word for line in text.splitlines() for word in line.partition("#")[0].split())


_ATEN = _names("""
# arithmetic and comparisons
__and__ __or__ __xor__ _conj _conj_physical _neg_view abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv
addr angle arctan2 asin asinh atan atan2 atanh baddbmm bitwise_and bitwise_not bitwise_or bitwise_xor bmm ceil clamp
clamp_max clamp_min clip complex conj conj_physical copysign cos cosh cross deg2rad digamma div divide dot einsum eq
erf erfc erfinv exp exp2 expm1 fix floor floor_divide fmax fmin fmod frac ge greater greater_equal gt hypot i0 imag
inner isclose isfinite isinf isnan isneginf isposinf kron le lerp less less_equal lgamma linear log log10 log1p log2
logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logit lt matmul maximum minimum mm mul multiply mv
nan_to_num ne neg negative nextafter not_equal outer polar positive pow rad2deg real reciprocal remainder resolve_conj
resolve_neg round rsqrt rsub sgn sigmoid sign signbit sin sinc sinh special_erf special_erfc special_expit
special_log1p special_log_softmax special_logit special_softmax sqrt square sub subtract tan tanh tensordot tril
tril_indices triu triu_indices true_divide trunc vdot view_as_complex view_as_real xlogy
# reductions, sorting, searching
all amax amin aminmax any argmax argmin argsort bucketize cdist cosine_similarity count_nonzero cummax cummin cumprod
cumsum dist frobenius_norm kthvalue linalg_matrix_norm linalg_norm linalg_vector_norm logcumsumexp logsumexp max mean
median min mode nanmean nansum norm nuclear_norm pairwise_distance prod quantile renorm searchsorted sort std std_mean
sum topk trace var var_mean
# small matrices
cholesky det inverse linalg_cholesky linalg_cholesky_ex linalg_cross linalg_det linalg_diagonal linalg_eigh
linalg_eigvalsh linalg_inv linalg_inv_ex linalg_matmul linalg_matrix_exp linalg_matrix_power linalg_qr linalg_slogdet
linalg_solve linalg_svd linalg_svdvals linalg_vecdot matrix_exp
# new tensors and copies
_shape_as_tensor _to_copy alias arange bernoulli cartesian_prod clone contiguous copy copy_ detach detach_ empty
empty_like empty_permuted empty_strided eye fill full full_like lift_fresh lift_fresh_copy linspace logspace meshgrid
multinomial new_empty new_empty_strided new_full new_ones new_zeros normal numpy_T one_hot ones ones_like rand
rand_like randint randint_like randn randn_like randperm scalar_tensor to to_dense type_as uniform zero zeros
zeros_like
# shapes and indices
_reshape_alias _unsafe_view adjoint alias_copy as_strided as_strided_scatter atleast_1d atleast_2d atleast_3d
block_diag broadcast_tensors broadcast_to cat channel_shuffle chunk col2im column_stack concat concatenate
constant_pad_nd detach_copy diag diag_embed diagonal diagonal_copy diagonal_scatter dim dstack expand expand_as
expand_copy flatten flip fliplr flipud gather hstack im2col index index_add index_copy index_fill index_put
index_select is_same_size mH mT masked_fill masked_scatter matrix_H moveaxis movedim narrow narrow_copy
native_channel_shuffle numel pad permute permute_copy pixel_shuffle pixel_unshuffle put ravel reflection_pad1d
reflection_pad2d reflection_pad3d repeat repeat_interleave replication_pad1d replication_pad2d replication_pad3d
reshape reshape_as roll rot90 scatter scatter_add scatter_reduce select select_copy select_scatter size slice
slice_copy slice_scatter split split_copy split_with_sizes split_with_sizes_copy squeeze squeeze_copy stack stride
swapaxes swapdims sym_numel sym_size sym_storage_offset sym_stride t t_copy take take_along_dim tile transpose
transpose_copy unbind unbind_copy unflatten unfold unfold_copy unsafe_chunk unsafe_split unsafe_split_with_sizes
unsqueeze unsqueeze_copy view view_as view_copy vstack where
# layers of networks
_adaptive_avg_pool2d _adaptive_avg_pool3d _batch_norm_impl_index _convolution _fused_rms_norm _log_softmax
_native_batch_norm_legit _native_batch_norm_legit_functional _native_batch_norm_legit_no_training _prelu_kernel
_safe_softmax _scaled_dot_product_flash_attention_for_cpu _softmax _thnn_fused_lstm_cell _upsample_bicubic2d_aa
_upsample_bilinear2d_aa _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
adaptive_max_pool3d affine_grid_generator alpha_dropout avg_pool1d avg_pool2d avg_pool3d batch_norm bilinear
binary_cross_entropy binary_cross_entropy_with_logits celu channel_shuffle conv1d conv2d conv3d conv_transpose1d
conv_transpose2d conv_transpose3d convolution cross_entropy_loss dropout elu embedding embedding_renorm
fake_quantize_per_channel_affine fake_quantize_per_tensor_affine feature_alpha_dropout feature_dropout gelu glu
grid_sampler grid_sampler_2d grid_sampler_3d group_norm gru gru_cell hardshrink hardsigmoid hardswish hardtanh
hinge_embedding_loss huber_loss instance_norm kl_div l1_loss layer_norm leaky_relu log_sigmoid log_softmax lstm
lstm_cell margin_ranking_loss max_pool1d max_pool1d_with_indices max_pool2d max_pool2d_with_indices max_pool3d
max_pool3d_with_indices max_unpool2d max_unpool3d mish mse_loss native_batch_norm native_dropout native_group_norm
native_layer_norm nll_loss nll_loss2d nll_loss_nd prelu relu relu6 rms_norm rnn_relu rnn_relu_cell rnn_tanh
rnn_tanh_cell rrelu rrelu_with_noise scaled_dot_product_attention selu silu smooth_l1_loss soft_margin_loss softmax
softplus softshrink threshold upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d
upsample_nearest2d upsample_nearest3d upsample_trilinear3d
# Fourier transforms
_fft_c2c _fft_c2r _fft_r2c bartlett_window blackman_window fft_fft fft_fft2 fft_fftfreq fft_fftn fft_fftshift fft_hfft
fft_ifft fft_ifft2 fft_ifftn fft_ifftshift fft_ihfft fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftfreq
fft_rfftn hamming_window hann_window istft kaiser_window stft
# statements about shapes that export leaves in the graph
_assert_async _assert_scalar _assert_tensor_metadata _functional_sym_constrain_range sym_constrain_range
sym_constrain_range_for_size
""")

_TORCHVISION = frozenset({"nms", "roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d"})
_NAMESPACES = {"aten": _ATEN, "torchvision": _TORCHVISION}

_SIZED_BY_VALUES = frozenset({"repeat_interleave.Tensor", "repeat_interleave.self_Tensor"})

REGIONS = frozenset({"wrap_with_set_grad_enabled", "wrap_with_autocast"})
"""Higher-order operators: parts of a program under no_grad or autocast, each run once."""

NUMBERS = frozenset(
    {f"_operator.{name}" for name in _names("add sub mul floordiv mod neg pos pow truediv eq ne lt le gt ge and_ or_")}
    | {f"torch.sym_{name}" for name in _names("not int float ite max min sqrt")}
    | {"math.trunc"}
)
"""Operations on integers, such as tensor sizes."""

_OPERATOR = re.compile(r"torch\.ops\.([a-z_]{1,40})\.(\w{1,100})(?:\.(\w{1,100}))?", re.ASCII)


@cache
def is_computation(target: str) -> bool:
    """Whether a program may call this operator, given its name in the file.

    >>> is_computation("torch.ops.aten.relu_.default"), is_computation("torch.ops.aten.from_file.default")
    (True, False)
    """
    if target in NUMBERS:
        return True
    match = _OPERATOR.fullmatch(target)
    if match is None:
        return False
    namespace, name, overload = match[1], match[2], match[3]
    if namespace == "higher_order":
        return name in REGIONS and overload is None
    if f"{name}.{overload}" in _SIZED_BY_VALUES:
        return False
    if overload is None or overload == "out" or overload.endswith("_out"):  # no writing into a given tensor
        return False
    if _plain(name) not in _NAMESPACES.get(namespace, ()):
        return False
    packet = getattr(getattr(torch.ops, namespace), name, None)
    return isinstance(getattr(packet, overload, None), torch._ops.OpOverload)


def _plain(name: str) -> str:
    """The name without the underscore of in-place operators, which are as harmless as the others."""
    return name if name in _ATEN or name.startswith("__") else name.removesuffix("_")
