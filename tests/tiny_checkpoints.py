"""Small trained checkpoints: a tiny model with a LoRA adapter that is at work, as a training run would leave it."""

from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model

from retriever.encoders.base import PromptEncoder
from retriever.encoders.checkpoint import save_checkpoint
from retriever.encoders.methods import EncoderOptions, build, encoder_class
from retriever.encoders.transformers_backbone import load_trainable


def save_trained(folder: Path, base: Path, *, method="instemb", seed=0, look_ahead=3, **options) -> PromptEncoder:
    """Write a checkpoint over the tiny Llama or Mistral at ``base``; return the encoder, its adapter not merged."""
    generator = torch.Generator().manual_seed(seed)
    backbone = load_trainable(str(base), device="cpu", dtype="float32")
    config = LoraConfig(task_type="CAUSAL_LM", r=2, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"])
    adapter = get_peft_model(backbone.model, config).eval()
    with torch.no_grad():
        for name, weight in adapter.named_parameters():
            if "lora_" in name:
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.1)
    chosen = EncoderOptions(**options)
    shapes = dict.fromkeys(encoder_class(method, backbone).learned_names, (look_ahead, backbone.dim))
    learned = {name: torch.randn(*shape, generator=generator) * 0.3 for name, shape in shapes.items()}
    encoder = build(method, backbone, chosen, learned or None)
    save_checkpoint(encoder, folder, card=f"# Tiny {method}\n\nMade of noise.\n", adapter=adapter)
    return encoder
